# Two images. The light core: docker build --target light --tag allocopt .
# A checkout with every extra and Slurm: docker build --target full --tag allocopt:full .

FROM python:3.11-slim-bookworm AS wheel
WORKDIR /source
COPY pyproject.toml setup.py README.md LICENSE ./
COPY allocopt allocopt
COPY formulations formulations
COPY heuristics heuristics
COPY learned learned
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim-bookworm AS light
RUN --mount=type=bind,source=constraints.txt,target=/opt/constraints.txt \
    --mount=type=bind,from=wheel,source=/wheels,target=/opt/wheels \
    pip install --no-cache-dir --constraint /opt/constraints.txt numba numpy pydantic typer \
    && pip install --no-cache-dir --no-deps /opt/wheels/*.whl \
    && useradd --create-home --uid 1000 allocopt \
    && install --directory --owner allocopt /home/allocopt/.cache
# Compiled kernels differ by processor, so they are not part of the image. Keep them in a volume.
VOLUME /home/allocopt/.cache
USER 1000
WORKDIR /work
ENTRYPOINT ["allocopt"]

FROM python:3.11-slim-bookworm AS full
# Debian's security updates replace pinned versions.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends make munge slurm-client slurmctld slurmd \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /allocopt
COPY . .
# Give the address of an index with builds of torch without CUDA to save 5 GB.
ARG PIP_EXTRA_INDEX_URL
RUN PIP_NO_CACHE_DIR=1 make .venv/installed-dev
ENV PATH=/allocopt/.venv/bin:$PATH
CMD ["bash"]
