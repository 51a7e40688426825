"""llama.cpp's own server with a model of random weights, in a process of its own, until its input ends."""

import sys
from pathlib import Path

import gguf
import numpy as np
import xllamacpp

WIDTH, LAYERS, HEADS, INNER, CONTEXT = 32, 2, 4, 64, 4096


def write_model(path: Path) -> None:
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁a", "▁b"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * len(words))
    writer.add_token_types([2, 3, 3, *[6] * 256, 1, 1])
    for key, token in (("bos", 1), ("eos", 2), ("unk", 0)):
        getattr(writer, f"add_{key}_token_id")(token)
    chance = np.random.default_rng(1)
    shapes = {"token_embd": (len(words), WIDTH), "output": (len(words), WIDTH)}
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        shapes |= {block + name: (WIDTH, WIDTH) for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
        shapes |= {block + "ffn_gate": (INNER, WIDTH), block + "ffn_up": (INNER, WIDTH)}
        shapes |= {block + "ffn_down": (WIDTH, INNER)}
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"{block}{norm}.weight", np.ones(WIDTH, np.float32))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", chance.standard_normal(shape).astype(np.float32) * np.float32(0.1))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(model: Path) -> None:
    write_model(model)
    params = xllamacpp.CommonParams()
    params.model.path, params.hostnames, params.port = str(model), ["127.0.0.1"], 0
    params.n_ctx, params.n_parallel, params.warmup = CONTEXT, 1, False
    params.endpoint_metrics = params.endpoint_slots = True
    params.cpuparams.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
