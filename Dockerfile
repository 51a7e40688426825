# Two images from one file: docker build --target agent -t gpu-oncall-agent .   and   --target bot -t gpu-oncall .
# The bus is not encrypted yet and stays on one machine: run both with --network host and one config.yaml.

FROM python:3.12-slim AS wheel
WORKDIR /src
COPY requirements/build.txt requirements/build.txt
RUN pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements/build.txt
COPY pyproject.toml README.md config.yaml ./
COPY wire wire
COPY agent agent
COPY bot bot
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheel .

# On a GPU node: --gpus all --pid host (in its own PID namespace it cannot see who holds a GPU, and says so).
# Where a kubelet gives GPUs away: --build-arg REQUIREMENTS=k8s, and --user 0 (docs/readings.md).
FROM python:3.12-slim AS agent
ARG REQUIREMENTS=agent
COPY requirements/${REQUIREMENTS}.txt /requirements.txt
RUN pip install --no-cache-dir --require-hashes --only-binary :all: -r /requirements.txt
COPY --from=wheel /wheel /wheel
RUN pip install --no-cache-dir --no-deps /wheel/*.whl \
    && useradd --system --uid 10001 gpu-oncall \
    && install -d -m 0700 -o gpu-oncall /var/lib/gpu-oncall-agent
USER gpu-oncall
VOLUME /var/lib/gpu-oncall-agent
ENTRYPOINT ["gpu-oncall-agent"]
CMD ["run", "--config", "/etc/gpu-oncall/config.yaml"]

# Once: with SLACK_BOT_TOKEN_FILE and SLACK_APP_TOKEN_FILE.
FROM python:3.12-slim AS bot
COPY requirements/bot.txt /requirements.txt
RUN pip install --no-cache-dir --require-hashes --only-binary :all: -r /requirements.txt
COPY --from=wheel /wheel /wheel
RUN pip install --no-cache-dir --no-deps /wheel/*.whl \
    && useradd --system --uid 10001 gpu-oncall \
    && install -d -m 0700 -o gpu-oncall /var/lib/gpu-oncall
USER gpu-oncall
VOLUME /var/lib/gpu-oncall
ENTRYPOINT ["gpu-oncall"]
CMD ["run", "--config", "/etc/gpu-oncall/config.yaml"]
