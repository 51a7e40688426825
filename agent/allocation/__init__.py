"""To whom the node's schedulers gave its GPUs: kubelet and Slurm. Never part of a sample's verdict."""
