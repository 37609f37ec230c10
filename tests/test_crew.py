"""What the driver makes of a Dask future, whatever became of it."""

from concurrent.futures import CancelledError

from procure.sweep.workers import _receipt


class LostBetween:
    """A future that its client calls off after its status was read, as a lost connection does."""

    def __init__(self, status):
        self.status = status

    def result(self):
        raise CancelledError("scheduler-connection-lost")

    exception = result


def test_future_lost_between_status_and_result_is_a_batch_to_do_again():
    """A connection lost between a future's status and its result calls the batch off; it is no defect."""
    assert _receipt(LostBetween("finished")) is None
    assert _receipt(LostBetween("error")) is None
