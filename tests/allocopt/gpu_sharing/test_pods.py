"""Tables of nodes and pods of the openb traces."""

from pathlib import Path

import pytest

from allocopt.errors import BadFileError, InvalidProblemError
from allocopt.gpu_sharing.pods import GpuNode, PodList, PodRequest, read_gpu_nodes, read_pods


def test_pods_are_read_with_shares_and_models(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
        "a,6000,12288,1,460,\nb,6000,12288,1,460,V100M16|V100M32\nc,8000,1,0,0,T4\nd,6000,12288,1,460,\n"
    )
    pods = read_pods(path)
    shared = PodRequest(6000, 12288, 1, 460)
    # A pod without GPUs does not care for their model.
    either = PodRequest(6000, 12288, 1, 460, frozenset({"V100M16", "V100M32"}))
    assert pods.requests == (shared, either, PodRequest(8000, 1))
    assert pods.request_of.tolist() == [0, 1, 2, 0]


def test_nodes_are_read_with_models(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("sn,cpu_milli,memory_mib,gpu,model\nx,64000,262144,2,P100\ny,32000,1,0,\n")
    assert read_gpu_nodes(path) == (GpuNode("x", 64_000, 262_144, 2, "P100"), GpuNode("y", 32_000, 1, 0))


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("a,6000,1,1,1200,", "asks for 1200 thousandths of each of 1 GPUs"),
        ("a,6000,1,0,200,", "asks for 200 thousandths of each of 0 GPUs"),
        ("a,-1,1,1,200,", "cpu_milli is '-1', must be a whole number, not negative"),
        ("a,6000,1,0.5,200,", "num_gpu is '0.5', must be a whole number"),
    ],
)
def test_faults_of_pods_are_named_with_file_and_line(tmp_path: Path, row: str, fault: str) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(f"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n{row}\n")
    with pytest.raises(BadFileError) as caught:
        read_pods(path)
    assert str(path) in str(caught.value)
    assert "line 2" in str(caught.value)
    assert fault in str(caught.value)


def test_a_node_with_too_many_gpus_is_refused() -> None:
    with pytest.raises(InvalidProblemError, match="has 63 GPUs, must have at most 62"):
        GpuNode("n", 1, 1, 63)


def test_equal_requests_are_one() -> None:
    pods = PodList.of([PodRequest(1, 1), PodRequest(2, 2), PodRequest(1, 1)])
    assert len(pods.requests) == 2
    assert len(pods) == 3
