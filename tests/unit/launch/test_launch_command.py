"""The command: what it takes from site and inventory, what it refuses, and that a refusal exits with 3."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch_builders import launched, refusal, site_of

from rackproof import site
from rackproof.cli import main
from rackproof.errors import InputError
from rackproof.launch import plan_launch
from rackproof.recipes import settings

ROOT = Path(__file__).resolve().parents[3]
SITE = """
serving:
  model_directory: /models/k3
  interface: eth0
  addresses: [10.0.0.1, 10.0.0.2]
"""


@pytest.fixture
def site_file(tmp_path: Path) -> str:
    (tmp_path / "site.yaml").write_text(SITE)
    return str(tmp_path / "site.yaml")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["launch", *words])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_all_nodes_or_one(site_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "gb300-tp8", "--site", site_file, "--format", "argv")
    assert code == 0 and out.count("vllm serve /models/k3") == 2 and "--headless" in out
    code, out, _ = run(capsys, "gb300-tp8", "--site", site_file, "--format", "argv", "--node-rank", "0")
    assert code == 0 and out.count("vllm serve /") == 1 and "--headless" not in out
    code, _, err = run(capsys, "gb300-tp8", "--site", site_file, "--node-rank", "2")
    assert code == 3 and "0 to 1" in err


def test_site_values_name_their_file_and_line(site_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "gb300-tp8", "--site", site_file, "--node-rank", "0")
    assert "site.yaml:4" in out and "From the site:" in out


def test_everything_that_is_missing_is_named_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "gb300-tp8")
    assert code == 3
    assert all(key in err for key in ("serving.model_directory", "serving.interface", "serving.addresses", "--example"))
    code, out, _ = run(capsys, "gb300-tp8", "--example")
    assert code == 0 and "EXAMPLE" in out and "192.0.2.1" in out


def test_roles_of_a_disaggregated_layout(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "gb300-pd", "--example", "--format", "argv")
    assert code == 0 and out.count("vllm serve /") == 6 and "vllm-router" in out
    code, out, _ = run(capsys, "gb300-pd", "--example", "--role", "decode", "--node-rank", "3", "--format", "argv")
    assert code == 0 and out.count("vllm serve /") == 1 and "--data-parallel-start-rank 12" in out
    assert run(capsys, "gb300-pd", "--example", "--node-rank", "0")[0] == 3
    assert run(capsys, "gb300-tp8", "--example", "--role", "decode")[0] == 3


def test_unknown_and_rejected_layouts_exit_3(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "gb300-tp9", "--example")
    assert code == 3 and "gb300-tp8" in err
    code, _, err = run(capsys, "gb200-tp8", "--example")
    assert code == 3 and "rejected" in err
    code, _, err = run(capsys, "gb300-dep16", "--example", "--fabric", "rdma")
    assert code == 3 and "mega_moe_not_over_rdma" in err and "(rcp)" in err


def test_units_of_an_inventory(capsys: pytest.CaptureFixture[str]) -> None:
    inventory = str(ROOT / "inventories" / "gb300.py")
    code, _, err = run(capsys, "gb300-tp8", "--inventory", inventory, "--example")
    assert code == 3 and "rack1-u01" in err
    code, out, _ = run(capsys, "gb300-tp8", "--inventory", inventory, "--unit", "rack1-u02", "--example")
    assert code == 0 and "--master-addr 10.10.1.13" in out and "rack1-tray04" in out
    assert run(capsys, "gb300-tp8", "--inventory", inventory, "--unit", "nowhere", "--example")[0] == 3
    assert run(capsys, "gb300-dep16", "--inventory", inventory, "--unit", "rack1-u02", "--example")[0] == 3
    assert run(capsys, "gb300-tp8", "--unit", "x")[0] == 3
    assert run(capsys, "gb300-tp8", "--inventory", inventory, "--site", "x.yaml")[0] == 3


def test_what_the_layout_decides_no_site_may_set() -> None:
    for name in settings.load().owned_args.value:
        assert f"serving.args.{name}" in refusal("b300-tp8", args={name: "1"})
    assert "serving.env.NCCL_SOCKET_IFNAME" in refusal("gb300-tp8", env={"NCCL_SOCKET_IFNAME": "eth1"})
    assert "serving.args.no-enable-expert-parallel" in refusal("gb300-tep8", args={"no-enable-expert-parallel": True})


def test_a_site_adds_changes_and_leaves_out() -> None:
    launch = launched("b300-tp8", args={"max-num-seqs": "64", "no-enable-prefix-caching": True, "load-format": False})
    args = launch.processes[0].args
    assert args["max-num-seqs"].text == "64" and args["max-num-seqs"].source == "site.yaml"
    assert "no-enable-prefix-caching" in args and "enable-prefix-caching" not in args and "load-format" not in args


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["10.0.0.1", "10.0.0.1"], ["10.0.0.1", "10.0.0.2", "10.0.0.3"]])
def test_addresses_must_fit_the_unit(addresses: list[str]) -> None:
    assert "accepted:" in refusal("gb300-tp8", addresses=addresses)


def test_head_address_alone_is_enough_but_for_pd() -> None:
    chosen = site_of(head_address="10.9.9.9")
    launch = plan_launch("gb300-tp8", chosen)
    assert launch.processes[1].args["master-addr"].text == "10.9.9.9"
    with pytest.raises(InputError, match=r"serving\.addresses"):
        plan_launch("gb300-pd", chosen)
    assert "first address" in refusal("gb300-tp8", head_address="10.0.0.9")


def test_derived_layouts_need_to_be_asked_for() -> None:
    with pytest.raises(InputError, match="derived"):
        plan_launch("gb300-tp4pp4", site.shipped())
    assert any("nobody has shown" in text for text in launched("gb300-tp4pp4").processes[0].warnings)


def test_image_is_the_baselines(site_file: str) -> None:
    from rackproof.baseline import resolve

    chosen = site.from_file(Path(site_file))
    image = resolve(chosen, hardware_id="gb300", layout_id="gb300-tp8").image
    assert plan_launch("gb300-tp8", chosen).processes[0].container.image == image.reference
    mirror = chosen.overlaid({"image": {"repository": "registry.example:5000/vllm/vllm-openai"}}, "site")
    found = plan_launch("gb300-tp8", mirror).processes[0].container.image
    assert found == image.reference.replace("docker.io/", "registry.example:5000/")


@pytest.mark.parametrize(
    "bad",
    ["interface: 'eth0; reboot'", "model_directory: relative", "args: {Max: '1'}", "args: {max-num-seqs: 5}",
     "env: {lower: x}", "storage: tape", "features: [fast]", "ports: {serve: 70000}", "rdma: {hcas: ['=mlx5_0']}",
     'model_directory: "/a\\nb"', "head_address: '-x'"],
)  # fmt: skip
def test_a_wrong_site_value_says_file_line_and_what_is_accepted(bad: str, tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(f"serving:\n  {bad}\n")
    with pytest.raises(InputError) as caught:
        site.from_file(file)
    assert "site.yaml:2" in str(caught.value) and "accepted:" in str(caught.value)
