# One image per connector:  docker build --build-arg CONNECTOR=postgres --tag tidemark/postgres .
# The runtime speaks to it on stdin and stdout; it opens no port and writes no file.

FROM debian:trixie-slim AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends python3 python3-venv \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
# The environment that is shipped has no pip in it; another one, which is not shipped, installs into it.
RUN python3 -m venv --without-pip /opt/tidemark && python3 -m venv /opt/pip
WORKDIR /src
# A connector image has no runtime and no Spark: tidemark/ then has a link to neither.
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY protocol protocol
COPY backfill backfill
COPY captures captures
COPY connectors connectors
COPY tidemark tidemark
RUN rm tidemark/runtime tidemark/spark_sink
ARG CONNECTOR=postgres
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_TRUSTED_HOST
RUN test -f "connectors/$CONNECTOR/__main__.py" \
 && /opt/pip/bin/pip --python /opt/tidemark/bin/python install --no-cache-dir --disable-pip-version-check \
      --constraint constraints.txt --group "$CONNECTOR-image" \
 && /opt/pip/bin/pip --python /opt/tidemark/bin/python install --no-cache-dir --disable-pip-version-check --no-deps . \
 && rm /opt/tidemark/bin/tidemark

FROM debian:trixie-slim
RUN apt-get update \
 && apt-get install --yes --no-install-recommends python3 ca-certificates \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY --from=build /opt/tidemark /opt/tidemark
ARG CONNECTOR=postgres
ARG VERSION
# Where whoever publishes the image has a page about it; otherwise it is the README that is in the image.
ARG DOCS_URL
# Modules are compiled already, so a read-only root costs nothing. HOME is where libpq looks for client certificates,
# SSL_CERT_FILE where it finds the authorities of sslrootcert=system.
ENV CONNECTOR=$CONNECTOR \
    LOG_LEVEL=info \
    DOCS_URL=$DOCS_URL \
    HOME=/tmp \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    PATH=/opt/tidemark/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1
LABEL FLOW_RUNTIME_PROTOCOL=capture \
      FLOW_RUNTIME_CODEC=json \
      org.opencontainers.image.title="tidemark/$CONNECTOR" \
      org.opencontainers.image.description="CDC capture connector that backfills while it reads the log" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 65532:65532
# exec: Python takes the shell's place, so that signals reach it.
ENTRYPOINT ["/bin/sh", "-c", "exec python -m \"tidemark.connectors.$CONNECTOR\""]
