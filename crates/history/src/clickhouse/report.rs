//! Queries of `doorbell links report`. Each returns one JSON object per line.
//!
//! A batch may be stored twice. `DISTINCT` removes the repeated rows: the identifying columns of a
//! row differ from those of every other one.

use std::ops::Range;

/// Queries about links within a period.
#[derive(Clone, Debug)]
pub struct LinkQueries<'a> {
    /// The database.
    pub database: &'a str,
    /// Start and exclusive end in seconds since 1970.
    pub time: Range<u32>,
}

impl LinkQueries<'_> {
    /// Frames of each link: sent, lost with a connection, dropped by the sender.
    #[must_use]
    pub fn loss(&self) -> String {
        let (database, time) = (self.database, self.within("minute"));
        format!(
            "SELECT instance, link, sum(sent) AS frames, sum(lost) AS frames_lost, sum(dropped) AS frames_dropped \
             FROM (SELECT DISTINCT * FROM {database}.link_minutes WHERE {time}) \
             GROUP BY instance, link ORDER BY instance, link FORMAT JSONEachRow"
        )
    }

    /// Latency of each link in microseconds, from its receipts.
    #[must_use]
    pub fn latency(&self) -> String {
        let (database, time) = (self.database, self.within("time"));
        format!(
            "SELECT instance, link, sum(weight) AS receipts, {QUANTILES}, \
             quantileExactWeighted(0.5)((one_way_min_us + one_way_max_us) / 2, weight) AS one_way_p50, \
             quantileExactWeighted(0.99)((one_way_min_us + one_way_max_us) / 2, weight) AS one_way_p99, \
             quantileExactWeighted(0.5)((one_way_max_us - one_way_min_us) / 2, weight) AS one_way_error, \
             corr(toFloat64(size), toFloat64(round_trip_us)) AS size_correlation \
             FROM (SELECT DISTINCT * FROM {database}.link_receipts WHERE {time}) \
             GROUP BY instance, link ORDER BY instance, link FORMAT JSONEachRow"
        )
    }

    /// Round-trip times of each link in intervals of `step_s` seconds; `at` is the start of an
    /// interval.
    #[must_use]
    pub fn course(&self, step_s: u32) -> String {
        let (database, time) = (self.database, self.within("time"));
        let at = format!("intDiv(toUInt32(time), {step_s}) * {step_s} AS at");
        format!(
            "SELECT instance, link, {at}, {QUANTILES} \
             FROM (SELECT DISTINCT * FROM {database}.link_receipts WHERE {time}) \
             GROUP BY instance, link, at ORDER BY instance, link, at FORMAT JSONEachRow"
        )
    }

    fn within(&self, column: &str) -> String {
        let Range { start, end } = self.time;
        format!("{column} >= toDateTime({start}) AND {column} < toDateTime({end})")
    }
}

/// Quantiles of the round-trip time. A row counts for as many receipts as it represents (`weight`),
/// because the sampling rate may change within the period.
const QUANTILES: &str = "quantileExactWeighted(0.5)(round_trip_us, weight) AS p50, \
                         quantileExactWeighted(0.9)(round_trip_us, weight) AS p90, \
                         quantileExactWeighted(0.99)(round_trip_us, weight) AS p99, max(round_trip_us) AS slowest";
