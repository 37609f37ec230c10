"""The public names, by where each lives: type checkers read this file, and `procure.__getattr__` does."""

import procure.forecast
import procure.learn.search
import procure.queue_time.evaluation
import procure.queue_time.predict
import procure.queue_time.state
import procure.queue_time.store
import procure.topology.fat_tree
import procure.topology.verify
import procure.window.solve
from procure._version import __version__ as __version__
from procure.account.account import account_waits as account_waits
from procure.comparison import compare as compare
from procure.comparison.isolation import weigh_isolation as weigh_isolation
from procure.errors import TableError as TableError
from procure.explanation import explain as explain
from procure.explorer import search as search
from procure.fitting.fit import fit_site as fit_site
from procure.forecast import find_patterns as find_patterns
from procure.forecast.forecasts import forecast_jobs as forecast_jobs
from procure.learn.judge import evaluate_policy as evaluate_policy
from procure.learn.search import learn_policy as learn_policy
from procure.learn.store import read_policy as read_policy
from procure.learn.store import write_policy as write_policy
from procure.learn.weeks import DayFilter as DayFilter
from procure.packages import PackageRules as PackageRules
from procure.packages import expand_packages as expand_packages
from procure.packages import package_nodes as package_nodes
from procure.packages import read_quotes as read_quotes
from procure.packages.nodes import jobs_left_out as jobs_left_out
from procure.queue_time.answer import predict_queue as predict_queue
from procure.recommender import recommend as recommend
from procure.recommender.award import award as award
from procure.recommender.evaluate import evaluate as evaluate
from procure.recommender.evaluate import train as train
from procure.recommender.forward import forward as forward
from procure.recommender.rent import compare_rent as compare_rent
from procure.recommender.rent import read_prices as read_prices
from procure.recommender.what_if import what_if as what_if
from procure.reports import report as report
from procure.reports.buying import Inputs as Inputs
from procure.reports.buying import ask as ask
from procure.reports.buying import buy as buy
from procure.run import simulate as simulate
from procure.study import load_study as load_study
from procure.study.costs import package_costs as package_costs
from procure.sweep import load_plan as load_plan
from procure.sweep import read_results as read_results
from procure.sweep import run_sweep as run_sweep
from procure.sweep.choose_days import DayRule as DayRule
from procure.sweep.choose_days import Probe as Probe
from procure.sweep.choose_days import choose_days as choose_days
from procure.sweep.results import load_results as load_results
from procure.tables import check as check
from procure.workload import describe as describe
from procure.workload import generate as generate
from procure.workload import import_log as import_log
from procure.workload import merge as merge
from procure.workload import read_log as read_log
from procure.workload import scale_load as scale_load
from procure.workload import scale_run_time as scale_run_time
from procure.workload import slice_day as slice_day

evaluate_forecasts = procure.forecast.evaluate
LearnSettings = procure.learn.search.Settings
evaluate_queue = procure.queue_time.evaluation.evaluate
QueueRequest = procure.queue_time.predict.Request
read_queue = procure.queue_time.state.read_state
load_queue = procure.queue_time.store.load
save_queue = procure.queue_time.store.save
update_queue = procure.queue_time.store.continue_training
train_queue = procure.queue_time.store.train
fat_tree = procure.topology.fat_tree.make_nodes
count_hops = procure.topology.verify.hops_of_jobs
check_isolation = procure.topology.verify.verify
solve_window = procure.window.solve.solve
