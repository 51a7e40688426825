# Two images from one file: docker build --target agent -t gpu-oncall-agent .   and   --target bot -t gpu-oncall .
# BASE is any image with Python 3.11 or newer and its venv at the same place: pin it by digest where that is wanted.
# Both run as user 10001, and with a read-only root file system: they write into /var/lib/... only.
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
WORKDIR /src
RUN python3 -m venv /build && python3 -m venv --without-pip /opt/gpu-oncall
ENV PIP="/build/bin/pip --disable-pip-version-check" PIP_NO_CACHE_DIR=1
COPY requirements/build.txt requirements/build.txt
RUN $PIP install --require-hashes --only-binary :all: -r requirements/build.txt
COPY pyproject.toml README.md config.yaml ./
COPY deploy/systemd deploy/systemd
COPY wire wire
COPY agent agent
COPY bot bot
RUN $PIP wheel --no-deps --no-build-isolation --wheel-dir /wheel .

FROM build AS agent-installed
# Where a kubelet gives GPUs away: --build-arg REQUIREMENTS=k8s
ARG REQUIREMENTS=agent
COPY requirements/${REQUIREMENTS}.txt requirements.txt
RUN $PIP --python /opt/gpu-oncall install --require-hashes --only-binary :all: -r requirements.txt \
    && $PIP --python /opt/gpu-oncall install --no-deps --no-index /wheel/*.whl

FROM build AS bot-installed
COPY requirements/bot.txt requirements.txt
RUN $PIP --python /opt/gpu-oncall install --require-hashes --only-binary :all: -r requirements.txt \
    && $PIP --python /opt/gpu-oncall install --no-deps --no-index /wheel/*.whl

FROM ${BASE} AS base
ENV PATH=/opt/gpu-oncall/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
RUN echo "gpu-oncall:x:10001:10001::/var/lib/gpu-oncall:/usr/sbin/nologin" >> /etc/passwd \
    && echo "gpu-oncall:x:10001:" >> /etc/group

# On a GPU node: --gpus all --pid host (in its own PID namespace it cannot see who holds a GPU, and says so).
FROM base AS agent
COPY --from=agent-installed /opt/gpu-oncall /opt/gpu-oncall
RUN install -d -m 0700 -o 10001 -g 10001 /var/lib/gpu-oncall-agent
ENV TMPDIR=/var/lib/gpu-oncall-agent
USER 10001:10001
VOLUME /var/lib/gpu-oncall-agent
HEALTHCHECK --interval=2m --timeout=30s --start-period=1m CMD ["gpu-oncall-agent", "healthy"]
ENTRYPOINT ["gpu-oncall-agent"]
CMD ["run"]

# Once: with SLACK_BOT_TOKEN_FILE and SLACK_APP_TOKEN_FILE.
FROM base AS bot
COPY --from=bot-installed /opt/gpu-oncall /opt/gpu-oncall
RUN install -d -m 0700 -o 10001 -g 10001 /var/lib/gpu-oncall
ENV TMPDIR=/var/lib/gpu-oncall
USER 10001:10001
VOLUME /var/lib/gpu-oncall
HEALTHCHECK --interval=1m --timeout=30s --start-period=2m CMD ["gpu-oncall", "healthy"]
ENTRYPOINT ["gpu-oncall"]
CMD ["run"]
