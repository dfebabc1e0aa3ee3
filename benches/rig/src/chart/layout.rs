//! Positions in a chart: sizes and the scale. Lengths are in SVG user units (pixels).

/// Width of the chart.
pub(super) const WIDTH: f64 = 860.0;
/// Distance from every edge of the chart.
pub(super) const MARGIN: f64 = 16.0;
/// Space above the first bar: title, subtitle, legend, ticks.
pub(super) const TOP: f64 = 126.0;
/// Left end of the bars, which is also the right end of the names.
pub(super) const LEFT: f64 = 136.0;
/// Space after the longest bar for its number.
pub(super) const RIGHT: f64 = 76.0;
/// Height of one bar.
pub(super) const BAR: f64 = 12.0;
/// Gap between the bars of one server.
pub(super) const GAP: f64 = 2.0;
/// Gap between servers.
pub(super) const GROUP_GAP: f64 = 10.0;
/// Space below the last bar.
pub(super) const BOTTOM: f64 = 18.0;
/// Maximum number of steps on the scale.
const TICKS_MAX: f64 = 8.0;

/// Converts numbers of instructions to horizontal positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    /// The value at the right end.
    pub(super) end: f64,
    /// The distance between ticks.
    pub(super) step: f64,
}

impl Scale {
    /// Creates a scale from 0 to the first tick at or above `largest`.
    pub(super) fn to(largest: f64) -> Self {
        let step = round_step(largest / TICKS_MAX);
        Self { end: (largest / step).ceil().max(1.0) * step, step }
    }

    /// Length of the bar for a value.
    pub(super) fn length(&self, value: f64) -> f64 {
        value / self.end * (WIDTH - LEFT - RIGHT)
    }

    /// The ticks, including 0.
    pub(super) fn ticks(&self) -> impl Iterator<Item = f64> {
        let step = self.step;
        let end = self.end;
        (0_u32..).map(move |n| f64::from(n) * step).take_while(move |&value| value <= end + step / 2.0)
    }
}

/// Height of a server's bars.
pub(super) fn group_height(bars: usize) -> f64 {
    let bars = f64::from(u32::try_from(bars).unwrap_or(u32::MAX));
    bars * BAR + (bars - 1.0).max(0.0) * GAP
}

/// Returns 1, 2 or 5 times a power of ten, at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(1.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|&step| step >= least)
        .unwrap_or(power)
}
