"""Spack's recipe: copy it to packages/py_procure_hpc/ of a repository of your own (`spack repo create`)."""

from spack.package import *


class PyProcureHpc(PythonPackage):
    """Which servers should an HPC centre buy, and when will a job start: simulation on the centre's own jobs."""

    pypi = "procure_hpc/procure_hpc-0.1.0.tar.gz"

    license("Apache-2.0")

    version("0.1.0")

    variant("jobqueue", default=True, description="Farms on Slurm, PBS, LSF and SGE")
    variant("learn", default=False, description="Train scheduling policies")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@77:", type="build")
    depends_on("py-cryptography@46.0.7:", type="run")
    depends_on("py-dask@2026.1.1:", type="run")
    depends_on("py-distributed@2026.1.1:", type="run")
    depends_on("py-jinja2@3.1.6:", type="run")
    depends_on("py-vl-convert-python@1.8:", type="run")
    depends_on("py-numba@0.60:", type="run")
    depends_on("py-numpy@2.0:", type="run")
    depends_on("py-odfdo@3.9:", type="run")
    depends_on("py-openpyxl@3.1:", type="run")
    depends_on("py-packaging@24:", type="run")
    depends_on("py-pandas@2.2.2:3", type="run")
    depends_on("py-pyarrow@18:", type="run")
    depends_on("py-psutil@6.0:", type="run")
    depends_on("py-pydantic@2.12:2", type="run")
    depends_on("py-pyyaml@6.0.1:", type="run")
    depends_on("py-rich@13.8:", type="run")
    depends_on("py-scikit-learn@1.5:", type="run")
    depends_on("py-scipy@1.13:", type="run")
    depends_on("py-threadpoolctl@3.1:", type="run")
    depends_on("py-tomli-w@1.0:", type="run")
    depends_on("py-typer@0.29:", type="run")
    depends_on("py-tzdata", type="run")
    depends_on("py-xgboost@2.1.1:3", type="run")
    depends_on("py-dask-jobqueue@0.9:", when="+jobqueue", type="run")
    depends_on("py-cma@4:", when="+learn", type="run")

    @run_after("install")
    def warm(self):
        """Compile every policy for all users of this installation."""
        procure = Executable(join_path(self.prefix.bin, "procure"))
        procure("doctor", "--warm", "--site", join_path(self.prefix, "cache"))

    def setup_run_environment(self, env):
        """Let users read what was compiled."""
        env.set("PROCURE_CACHE", join_path(self.prefix, "cache"))
