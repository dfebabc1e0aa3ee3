//! The cost of a context switch: the slope of instructions over switches.

/// One measurement, per request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// Context switches of the server.
    pub(super) switches: f64,
    /// Instructions of the server.
    pub(super) server: f64,
}

/// The common slope of several groups by least squares, where each group has its own intercept: the
/// within-group slope of an analysis of covariance. 0 if the switches do not vary.
pub(super) fn slope(groups: &[&[Point]]) -> f64 {
    let (mut products, mut squares) = (0.0, 0.0);
    for group in groups {
        let switches = mean(group, |point| point.switches);
        let server = mean(group, |point| point.server);
        for point in *group {
            let distance = point.switches - switches;
            products += distance * (point.server - server);
            squares += distance * distance;
        }
    }
    if squares > 0.0 { products / squares } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "a group has a handful of points")]
fn mean(group: &[Point], part: impl Fn(&Point) -> f64) -> f64 {
    group.iter().map(part).sum::<f64>() / group.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Boots of a build that costs `base` instructions plus 3,000 per context switch.
    fn build(base: f64, switches: &[f64]) -> Vec<Point> {
        switches.iter().map(|&switches| Point { switches, server: base + 3_000.0 * switches }).collect()
    }

    #[test]
    fn the_slope_does_not_depend_on_the_difference_of_builds() {
        let (cheap, dear) = (build(9_000.0, &[0.5, 0.6, 0.9]), build(12_000.0, &[0.1, 0.2, 0.15]));
        assert!((slope(&[&cheap, &dear]) - 3_000.0).abs() < 1e-6);
    }

    #[test]
    fn without_variation_there_is_no_slope() {
        assert!(slope(&[&build(9_000.0, &[0.5, 0.5]), &[]]).abs() < 1e-9);
    }
}
