"""The traps of the recipe (contradictions, defects, what its site renders) and the value we hold against each."""

from __future__ import annotations

import re

import pytest
from launch_builders import arg, env, launched, refusal, usable

from rackproof.launch import render

TIMEOUT = "VLLM_ENGINE_READY_TIMEOUT_S"


@pytest.fixture(scope="module", params=[layout.id for layout in usable() if layout.id != "h200-tp16dp2"])
def launch(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    return launched(request.param)


def test_every_node_of_every_layout_keeps_the_common_rules(launch) -> None:  # type: ignore[no-untyped-def]
    for process in launch.processes:
        node = process.rank
        text = {name: value.text for name, value in process.args.items()}
        assert text["tool-call-parser"] == "kimi_k3" and text["reasoning-parser"] == "kimi_k3", node
        assert int(process.env[TIMEOUT].text) >= 3600
        assert ("enable-prefix-caching" in text) != ("no-enable-prefix-caching" in text)
        assert 96 % int(text.get("tensor-parallel-size", "1")) == 0
        assert 163840 % int(text.get("tensor-parallel-size", "1")) == 0
        assert not any("COMPATIBILITY" in name for name in process.env)
        assert re.search(r"@sha256:[0-9a-f]{64}$", process.container.image)
        assert process.container.network == "host" and process.container.ipc == "host"
        assert dict(process.container.ulimits)["memlock"] == -1
        assert "IPC_LOCK" in process.container.capabilities


def test_no_format_is_privileged_or_uses_a_tag(launch) -> None:  # type: ignore[no-untyped-def]
    for format_ in ("docker", "systemd", "compose"):
        for line in render(launch, format_, launch.processes[:1]).splitlines():
            if not line.startswith("#"):
                assert "privileged" not in line and ":latest" not in line and "-p 8000" not in line


def test_ranks_meet_at_the_first_node_of_their_pool(launch) -> None:  # type: ignore[no-untyped-def]
    heads: dict[str, str] = {}
    for process in launch.processes:
        head = heads.setdefault(process.pool.name, process.address)
        for name in ("master-addr", "data-parallel-address"):
            if name in process.args:
                assert process.args[name].text == head
        if process.pool.nodes > 1:
            assert process.env["NCCL_SOCKET_IFNAME"].text == process.env["GLOO_SOCKET_IFNAME"].text == "enP6p3s0f0np0"


def test_engine_environment_is_equal_on_all_nodes_of_a_pool(launch) -> None:  # type: ignore[no-untyped-def]
    seen: dict[str, dict[str, str]] = {}
    for process in launch.processes:
        env_ = {name: value.text for name, value in process.env.items() if name != "VLLM_NIXL_SIDE_CHANNEL_HOST"}
        assert seen.setdefault(process.pool.name, env_) == env_


@pytest.mark.parametrize("layout", ["gb300-tp8", "gb300-dep16", "gb200-tp16", "gb300-tp4pp4"])
def test_mnnvl_environment_is_added_where_upstream_only_recommends_it(layout: str) -> None:
    launch = launched(layout)
    for name in ("NCCL_MNNVL_ENABLE", "NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE"):
        assert env(launch, name) == env(launch, name, 1) == "1"
    assert "renders them for PD prefill only" in render(launch, "docker", launch.processes[:1])
    assert "/dev/nvidia-caps-imex-channels/channel0" in launch.processes[0].container.devices
    assert env(launched(layout, None if layout != "gb300-tp8" else "rdma"), "NCCL_MNNVL_ENABLE") == (
        "1" if layout != "gb300-tp8" else None
    )


def test_hgx_nodes_get_neither_mnnvl_nor_imex_but_verbs() -> None:
    launch = launched("b200-tp16")
    assert env(launch, "NCCL_MNNVL_ENABLE") is None
    devices = launch.processes[0].container.devices
    assert "/dev/infiniband" in devices and not any("imex" in device for device in devices)


def test_one_node_needs_no_address_interface_or_rendezvous() -> None:
    launch = launched("b300-tp8", interface="eth0")
    assert env(launch, "NCCL_SOCKET_IFNAME") is None and arg(launch, "master-addr") is None
    assert "/dev/infiniband" not in launch.processes[0].container.devices


def test_mega_moe_only_over_nvlink_and_never_on_b200_b300() -> None:
    assert arg(launched("gb300-dep16"), "moe-backend") == "deep_gemm_mega_moe"
    for layout in ("b200-dep16", "b300-dep16"):
        assert arg(launched(layout), "moe-backend") is None
        said = refusal(layout, args={"moe-backend": "deep_gemm_mega_moe"})
        assert "mega_moe_not_over_rdma" in said and "(rcp)" in said and "site.yaml" in said
    assert "mega_moe_not_over_rdma" in refusal("gb300-dep16", "rdma")
    over_rdma = launched("gb300-dep16", "rdma", args={"moe-backend": False})
    assert arg(over_rdma, "moe-backend") is None


def test_all2all_is_said_only_when_asked_for_and_by_fabric() -> None:
    assert arg(launched("gb300-dep16"), "all2all-backend") is None
    assert arg(launched("gb300-dep16", features=["all2all"]), "all2all-backend") == "flashinfer_nvlink_one_sided"
    assert arg(launched("b200-dep16", features=["all2all"]), "all2all-backend") == "deepep_v2"
    assert arg(launched("gb300-tp8", features=["all2all"]), "all2all-backend") is None
    assert "all2all_nvlink" in refusal("b200-dep16", args={"all2all-backend": "flashinfer_nvlink_one_sided"})
    assert "all2all_rdma" in refusal("gb300-dep16", args={"all2all-backend": "deepep_v2"})


def test_dspark_is_refused_with_pipelines_and_is_the_later_model() -> None:
    said = refusal("b200-tp8pp2", features=["dspark"])
    assert "dspark_not_with_pipeline" in said and "v50098" in said
    assert '"RedHatAI/Kimi-K3-speculator.dspark"' in str(arg(launched("b300-tp8", features=["dspark"]), "speculative-config"))


def test_dcp_is_for_one_node() -> None:
    assert arg(launched("b300-tp8", features=["dcp"]), "attention-backend") == "TOKENSPEED_MLA"
    assert "dcp_single_node" in refusal("gb300-tp8", features=["dcp"])


@pytest.mark.parametrize("layout", ["gb300-pd", "b300-pd", "gb200-pd", "h200-pd", "mi355x-pd"])
def test_ready_timeout_is_there_on_both_roles_of_pd(layout: str) -> None:
    for process in launched(layout).processes:
        assert process.env[TIMEOUT].text == "3600"


def test_amd_gets_the_timeout_that_upstream_forgets() -> None:
    launch = launched("mi355x-tp8")
    assert env(launch, TIMEOUT) == "3600"
    assert "upstream sets none on AMD" in render(launch, "docker")


def test_slow_storage_doubles_the_timeout_and_a_site_cannot_lower_it() -> None:
    for layout in ("gb300-tp8", "gb300-pd", "mi355x-tp8", "h200-tp16", "b200-tp8pp2"):
        assert env(launched(layout, storage="slow"), TIMEOUT) == "7200"
        assert "ready_timeout" in refusal(layout, env={TIMEOUT: "600"})
        assert "ready_timeout_slow_storage" in refusal(layout, storage="slow", env={TIMEOUT: "3600"})
    assert "ready_timeout" in refusal("b300-tp8", env={TIMEOUT: "soon"})


def test_dmabuf_off_only_with_peermem() -> None:
    said = refusal("b200-tp16", rdma={"dmabuf": "broken"})
    assert "dmabuf_off_needs_peermem" in said and "serving.rdma.peermem" in said
    assert env(launched("b200-tp16", rdma={"dmabuf": "broken", "peermem": True}), "NCCL_DMABUF_ENABLE") == "0"
    assert "dmabuf_off_needs_peermem" in refusal("b200-tp16", env={"NCCL_DMABUF_ENABLE": "0"})
    assert env(launched("b200-tp16"), "NCCL_DMABUF_ENABLE") is None


def test_hcas_are_named_exactly() -> None:
    launch = launched("b200-tp16", rdma={"hcas": ["mlx5_0", "mlx5_1"], "gid_index": 3})
    assert env(launch, "NCCL_IB_HCA") == "=mlx5_0,mlx5_1" and env(launch, "NCCL_IB_GID_INDEX") == "3"
    assert "ib_hca_exact" in refusal("b200-tp16", env={"NCCL_IB_HCA": "mlx5_1"})
    assert not refusal("b200-tp16", env={"NCCL_IB_HCA": "^=mlx5_9"})


@pytest.mark.parametrize(
    ("layout", "serving", "rule"),
    [
        ("b300-tp8", {"args": {"tool-call-parser": "kimi_k2"}}, "tool_parser"),
        ("b300-tp8", {"args": {"tool-call-parser": False}}, "tool_parser"),
        ("b300-tp8", {"args": {"enable-prefix-caching": False}}, "prefix_caching_explicit"),
        ("b300-tp8", {"env": {"VLLM_ENABLE_CUDA_COMPATIBILITY": "1"}}, "no_forward_compatibility"),
        ("b300-tp8", {"env": {"VLLM_CUDA_COMPATIBILITY_PATH": "/x"}}, "no_forward_compatibility"),
        ("b300-tp8", {"env": {"NCCL_MNNVL_ENABLE": "1"}}, "mnnvl_environment_only_there"),
        ("b300-tp8", {"env": {"VLLM_PREFIX_CACHE_RETENTION_INTERVAL": "1000"}}, "retention_interval"),
        ("mi355x-tp8", {"env": {"VLLM_USE_BREAKABLE_CUDAGRAPH": "1"}}, "amd_no_breakable_graphs"),
        ("mi355x-tp8", {"args": {"kv-cache-dtype": "fp8"}}, "amd_kv_cache"),
        ("mi355x-tp8", {"env": {"AITER_SITUV2_A8W4": "1"}}, "amd_situ_variable"),
        ("gb300-tp8", {"addresses": ["fe80::1", "10.0.0.2"]}, "head_reachable"),
        ("gb300-tp8", {"addresses": ["127.0.0.1", "10.0.0.2"]}, "head_reachable"),
    ],
)
def test_a_site_that_breaks_a_rule_is_refused_by_name(layout: str, serving: dict, rule: str) -> None:  # type: ignore[type-arg]
    said = refusal(layout, **serving)
    assert f"rule {rule}:" in said and "kimi_k3_settings.yaml:" in said and "accepted:" in said


@pytest.mark.parametrize("layout", ["gb200-tp8", "gb200-tp12", "b200-tp8", "h200-tp8", "h200-dep16", "h100-tp32"])
def test_what_the_site_renders_and_cannot_work_is_refused_with_the_reason(layout: str) -> None:
    assert "is rejected" in refusal(layout)


def test_amd_runs_the_rocm_image_by_its_hyphenated_name() -> None:
    image = launched("mi355x-tp8").processes[0].container.image
    assert image.startswith("docker.io/vllm/vllm-openai-rocm@sha256:")
    container = launched("mi355x-tp8").processes[0].container
    assert container.devices == ("/dev/kfd", "/dev/dri") and container.entrypoint == ("vllm", "serve")


def test_workers_of_tp_dp_are_headless_and_of_dep_are_not() -> None:
    assert arg(launched("gb300-tp4dp4"), "headless", 1) == "" and arg(launched("gb300-tp4dp4"), "headless") is None
    assert arg(launched("gb300-dep16"), "headless", 1) is None
    assert arg(launched("gb300-dep16"), "data-parallel-start-rank", 2) == "8"


def test_pipelines_leave_room_for_the_workspace_of_blackwell() -> None:
    assert arg(launched("b200-tp8pp2"), "gpu-memory-utilization") == "0.90"
    assert arg(launched("h200-tp8pp2"), "gpu-memory-utilization") == "0.97"  # upstream's order: the generation wins


def test_pd_warns_of_the_corruption_that_is_open_in_this_image() -> None:
    assert any("v52627" in warning for warning in launched("gb300-pd").processes[0].warnings)


def test_pd_binds_each_node_to_its_own_address_and_routes_to_both_roles() -> None:
    launch = launched("gb300-pd")
    assert [env(launch, "VLLM_NIXL_SIDE_CHANNEL_HOST", at) for at in (0, 1, 5)] == ["10.0.0.1", "10.0.0.2", "10.0.0.6"]
    assert [arg(launch, "port", at) for at in (0, 2)] == ["8001", "8002"]
    assert launch.router.count("--prefill") == 1 and launch.router.count("--decode") == 4
