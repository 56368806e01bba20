"""``kspec report``: occupancy, the table, JSON, and the page."""

from __future__ import annotations

import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kspec.build.project import build_project, plan_project
from kspec.build.report import table as reports
from kspec.build.report.lock import FILE_NAME, read_lock
from kspec.build.report.page import page_context, render_page
from kspec.build.report.table import ELEMENTWISE_THREADS, REDUCTION_THREADS, make_report
from kspec.model.stages import COLUMNS, FLAT, LINES, ROWS, TILES
from kspec.runtime.schedules import elementwise_schedule, reductions
from kspec.runtime.schedules.occupancy import Occupancy, occupancy
from kspec.runtime.schedules.reductions import columns, lines
from tests.projects import ROOT, SHIFTS, write_project


def report_of(project: Path, *kernels: str) -> reports.Report:
    lock = read_lock(project)
    assert lock is not None
    return make_report(plan_project(project), lock, kernels)


class TestOccupancy:
    @pytest.mark.parametrize(
        ("arch", "threads", "registers", "shared", "share", "limit"),
        [
            # By hand, from the rules in the module's docstring.
            ("sm_90", 256, 32, 0, 1.0, "warps"),
            ("sm_90", 256, 33, 0, 0.75, "registers"),
            ("sm_90", 256, 40, 0, 0.75, "registers"),
            ("sm_90", 256, 48, 0, 0.625, "registers"),
            ("sm_90", 256, 255, 0, 0.125, "registers"),
            ("sm_90", 1024, 64, 0, 0.5, "registers"),
            ("sm_90", 1024, 65, 0, 0.0, "registers"),
            ("sm_90", 32, 32, 0, 0.5, "blocks"),
            ("sm_90", 33, 32, 0, 1.0, "warps"),
            ("sm_90a", 128, 16, 48 * 1024, 0.25, "shared memory"),
            ("sm_80", 128, 16, 48 * 1024, 0.1875, "shared memory"),
            ("sm_120f", 256, 40, 0, 1.0, "warps"),
            ("sm_86", 128, 32, 0, 1.0, "warps"),
        ],
    )
    def test_known(
        self, arch: str, threads: int, registers: int, shared: int, share: float, limit: str
    ) -> None:
        found = occupancy(arch, threads, registers, shared)
        assert found is not None
        most = 48 if arch.startswith(("sm_86", "sm_120")) else 64
        assert found == Occupancy(round(share * most) // -(-threads // 32), share, limit)

    @pytest.mark.parametrize("arch", ["sm_70", "sm_999", "compute_90", "host"])
    def test_unknown(self, arch: str) -> None:
        assert occupancy(arch, 256, 32, 0) is None

    def test_threads_are_those_of_launches(self) -> None:
        assert ELEMENTWISE_THREADS[FLAT] == elementwise_schedule._FLAT_THREADS
        assert ELEMENTWISE_THREADS[ROWS] == elementwise_schedule._ROW_THREADS
        assert ELEMENTWISE_THREADS[TILES] == elementwise_schedule._TILE_THREADS
        assert REDUCTION_THREADS["strided"] == reductions._THREADS
        assert REDUCTION_THREADS[LINES] == lines._MOST_THREADS[LINES]
        assert REDUCTION_THREADS[COLUMNS] == columns._THREADS

    @pytest.mark.parametrize(
        ("rules", "threads"),
        [('block = "96"', 96), ("block = [8, 16]", 128), ('block = "2 * 32"', 64), ("", 64)],
    )
    def test_threads_of_raw_kernels(self, tmp_path: Path, rules: str, threads: int) -> None:
        grid = 'grid = "ceil_div(n, block.x * block.y)"'  # it follows the block of the example
        text = SHIFTS.replace("params", f"{rules}\n{grid}\nparams" if rules else "params", 1)
        toy = write_project(tmp_path, shifts=text.replace("block = [128]", "block = [64]"))
        build_project(toy)
        line = next(line for line in report_of(toy, "shift").lines if line.occupancy)
        assert line.threads == threads

    def test_threads_follow_the_template(self, tmp_path: Path) -> None:
        """Each instance has the block of its integers."""
        text = SHIFTS.replace('extern "C" __global__', "template <int N> __global__")
        rules = """
name_expressions = ["shift<4>", "shift<8>"]
template = ["N"]
grid = "1"
block = ["N", "2 * N"]
fixed = ["block"]
params"""
        text = text.replace("params", rules, 1).replace("block = [128]", "").replace("3", "N")
        toy = write_project(tmp_path, shifts=text.replace("grid = [1]", ""))
        build_project(toy)
        lines = report_of(toy, "shift").lines
        assert {line.threads for line in lines if line.occupancy} == {32, 128}

    @pytest.mark.gpu
    def test_the_driver_says_the_same(self) -> None:
        from kspec.model.stages import RawSymbol
        from kspec.runtime import driver
        from kspec.runtime.driver.device import Device
        from kspec.runtime.modules.cuda import CudaKernel
        from kspec.runtime.package import open_module

        major, minor = driver.compute_capability(0)
        arch = f"sm_{major}{minor}"
        compared = 0
        for line in report_of(ROOT).lines:
            if line.arch != arch or line.occupancy is None:
                continue
            file = str(ROOT / "generated/kspec_kernels" / f"{line.module}.py")
            module = open_module(file, line.module)
            kernel = module.load(RawSymbol(line.name), Device("cuda", 0))
            assert isinstance(kernel, CudaKernel)
            # Another compiler than the lock's may have made it.
            used = kernel.attributes
            known = occupancy(arch, line.threads, used["num_regs"], used["shared_size_bytes"])
            resident = kernel.resident_blocks(line.threads) // driver.multiprocessors(0)
            assert known is not None
            assert resident * -(-line.threads // 32) / driver_warps(0) == known.share, line
            compared += 1
        if not compared:
            pytest.skip(f"the lock has nothing for {arch}")


def driver_warps(ordinal: int) -> int:
    """Return the warps that a multiprocessor holds."""
    from kspec.runtime import driver

    bindings = driver.bindings()
    attribute = bindings.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR
    device = driver.check(bindings.cuDeviceGet(ordinal))
    return int(driver.check(bindings.cuDeviceGetAttribute(attribute, device))) // 32


class TestTable:
    def test_it_fits_80_columns(self, run, built: Path) -> None:
        status, out, err = run("report", "--project", built)
        assert status == 0 and not err
        assert max(map(len, out.splitlines())) <= 80
        assert "squares.square" in out and "  float, Strided<8>" in out and "compute_80" in out
        assert "\n3 kernels, 15 specializations, 2 architectures, " in out

    def test_the_shipped_ones_fit_too(self, run) -> None:
        status, out, _ = run("report", "--project", ROOT)
        assert status == 0 and max(map(len, out.splitlines())) <= 80

    def test_some_of_it(self, run, built: Path) -> None:
        out = run("report", "total", "shifts.shift", "--arch", "sm_90", "--project", built)[1]
        assert "squares.total" in out and "shifts.shift" in out
        assert "squares.square" not in out and "compute_80" not in out
        status, _, err = run("report", "totl", "--project", built)
        assert status == 2 and "the lock has no kernel 'totl'" in err
        status, _, err = run("report", "--arch", "sm_80", "--project", built)
        assert status == 2 and "nothing for 'sm_80'; it has sm_90, compute_80" in err

    def test_without_a_lock(self, run, toy: Path) -> None:
        status, _, err = run("report", "--project", toy)
        assert status == 1
        assert err == (
            "kspec: there is no kspec.lock, which builds with --arch or --no-compile do not write; "
            "run `kspec build` without them\n"
        )

    def test_an_old_lock(self, run, built: Path) -> None:
        write_project(built, squares=(built / "specs/squares.toml").read_text() + "# new\n")
        assert run("report", "--project", built)[2] == ""
        (built / "specs/amount.cuh").write_text("#define AMOUNT 5\n")
        status, out, err = run("report", "--project", built)
        assert status == 0 and "squares.total" in out
        assert err == "kspec: kspec.lock is older than the specs; run `kspec build`\n"

    def test_a_damaged_lock(self, run, built: Path) -> None:
        (built / FILE_NAME).write_text("x")
        status, _, err = run("report", "--project", built)
        assert status == 1 and "kspec.lock is damaged" in err

    def test_json(self, run, built: Path) -> None:
        data = json.loads(run("report", "square", "--format", "json", "--project", built)[1])
        assert data["compilers"][0].startswith("nvrtc V")
        assert len(data["lines"]) == 20
        line = data["lines"][0]
        assert line["module"] == "squares" and line["kernel"] == "square"
        assert line["specialization"] == "square<float, kspec::Flat>" and line["arch"] == "sm_90"
        assert line["threads"] == 256 and 0 < line["occupancy"] <= 1
        assert {"registers", "spills", "stack", "shared", "bytes", "limit"} <= set(line)
        assert "occupancy" not in data["lines"][1], "PTX"


# As much of a browser as the script of the page asks for: a table with a name and a number.
DOM = """
const cell = (key, number) => (
  { dataset: { key }, textContent: key, classList: { contains: () => number } });
const row = (name, number) => ({ cells: [cell(name, false), cell(number, true)], hidden: false });
const body = { rows: [row("b", "3"), row("a", "10"), row("c", "-1")], append(...all) { this.rows = all; } };
const head = () => {
  const found = new Map(), self = {};
  return Object.assign(self, {
    getAttribute: name => found.get(name) ?? null,
    setAttribute: (name, value) => found.set(name, value),
    removeAttribute: name => found.delete(name),
    firstElementChild: { addEventListener: (_, handler) => { self.click = handler; } },
  });
};
const heads = [head(), head()];
const filter = { addEventListener: (_, handler) => { filter.type = handler; } };
const table = { tBodies: [body], tHead: { rows: [{ cells: heads }] } };
const document = { getElementById: name => name === "all" ? table : filter };
"""
CLICKS = """
const show = () => console.log(
  body.rows.map(one => one.cells.map(cell => cell.textContent).join("")).join(" "),
  heads[1].getAttribute("aria-sort"));
for (const column of [1, 1, 0]) { heads[column].click(); show(); }
filter.type({ target: { value: "B 3" } });
console.log(...body.rows.map(one => one.hidden));
"""


class _Checker(HTMLParser):
    """Finds tags that are not closed, and whatever leads out of the page."""

    VOID = ("meta", "input", "rect", "line", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [f"{name}={value}" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


class TestPage:
    def test_it_needs_nothing_else(self, run, built: Path, tmp_path: Path) -> None:
        path = tmp_path / "report.html"
        status, out, _ = run("report", "--html", path, "--project", built)
        assert status == 0 and out.startswith(f"{path}: 3 kernels, ")
        text = path.read_text(encoding="utf-8")
        checker = _Checker()
        checker.feed(text)
        checker.close()
        assert not checker.open and not checker.links
        assert "http" not in text and "@import" not in text and "url(" not in text
        assert checker.tags.count("tr") == 31, "a head, and fifteen specializations for two archs"
        assert checker.tags.count("figure") == 3
        assert "prefers-color-scheme: dark" in text and "toy_kernels" in text

    def test_it_is_deterministic(self, built: Path) -> None:
        report = report_of(built)
        assert render_page(report, "toy") == render_page(report, "toy")

    def test_names_are_escaped(self, built: Path) -> None:
        text = render_page(report_of(built), "<b>toy</b>")
        assert "&lt;b&gt;toy&lt;/b&gt;" in text and "<b>" not in text
        assert "float, Strided&lt;8&gt;" in text

    def test_bars(self, built: Path) -> None:
        size, registers, share = page_context(report_of(built), "toy").charts
        for chart in (size, registers, share):
            assert len(chart.kernels) == 3
            for _, bars in chart.kernels:
                assert [bar.arch for bar in bars] == ["sm_90"], "PTX has no figures"
            widths = [float(bar.percent) for _, bars in chart.kernels for bar in bars]
            assert max(widths) == 100 and min(widths) > 0
        kernel, (bar,) = share.kernels[0]
        assert (kernel, bar.text, bar.percent) == ("shifts.shift", "100", "100.0")

    def test_the_table_sorts_and_filters(self, built: Path, tmp_path: Path) -> None:
        node = shutil.which("node")
        if node is None:
            pytest.skip("needs node")
        script = render_page(report_of(built), "toy").split("<script>")[1].split("</script>")[0]
        program = tmp_path / "page.js"
        program.write_text(DOM + script + CLICKS)
        done = subprocess.run([node, program], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "c-1 b3 a10 ascending",
            "a10 b3 c-1 descending",
            "a10 b3 c-1 null",
            "true false true",
        ]

    def test_ptx_alone_has_no_bars(self, toy: Path) -> None:
        path = toy / "pyproject.toml"
        path.write_text(path.read_text().replace('"sm_90", ', ""))
        build_project(toy)
        page = page_context(report_of(toy), "toy")
        assert not any(chart.kernels for chart in page.charts)
        assert render_page(report_of(toy), "toy")
