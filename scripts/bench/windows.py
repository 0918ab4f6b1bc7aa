"""What a guest saw within a time: silence, its slowest request, percentiles, out of (due, answered) in the order of answers.

Promises  a request that was under way when the time began counts for the slowest, and one that was due in it for percentiles
          silence that begins before a window or ends after it counts whole
"""


def longest_silence(records, begin, end):
    """The longest time without any answer that touches begin..end, in seconds; 0 of fewer than two answers."""
    answers = [answered for _, answered in records]
    gaps = [(later - earlier) for earlier, later in zip(answers, answers[1:]) if later > begin and earlier < end]
    return max(gaps, default=0.0)


def slowest(records, begin, end):
    """The longest time from due to answered among requests that were unanswered at some time of begin..end."""
    return max((answered - due for due, answered in records if answered > begin and due < end), default=0.0)


def latency_percentile(records, begin, end, percent):
    """A percentile of the latency of requests that were due within begin..end: the value that so many do not exceed."""
    values = sorted(answered - due for due, answered in records if begin <= due < end)
    if not values:
        raise ValueError("no request was due within the window: it is too short for this rate")
    return values[max(0, -(-len(values) * percent // 100) - 1)]
