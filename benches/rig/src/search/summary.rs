//! What a search learnt: the best set, the way there, and what each switch is worth at its end.
//!
//! Does not know about: guests.

use std::fmt::Write;

use serde_json::json;

use super::log::Conditions;
use super::space::Space;
use super::walk::{Ended, Point, Role, Try, Walked};

/// Forms of the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// For machines.
    Json,
    /// For people and for the knowledge base.
    Markdown,
}

/// One value of one parameter beside the best point.
struct Effect {
    key: String,
    value: String,
    /// In per cent of the best score; `None` when it was rejected.
    percent: Option<f64>,
    rejected: String,
}

pub(super) fn show(walked: &Walked, space: &Space, conditions: &Conditions, form: Form) -> String {
    match form {
        Form::Json => json_form(walked, space, conditions),
        Form::Markdown => markdown(walked, space, conditions),
    }
}

fn markdown(walked: &Walked, space: &Space, conditions: &Conditions) -> String {
    let Conditions { kernel, engine, score, seed, repeat, .. } = conditions;
    let loads: Vec<String> =
        conditions.loads.iter().map(|(load, weight)| format!("`{load}` x {weight}")).collect();
    let mut text = format!(
        "# Search: Linux {kernel}, {}\n\nScore: 10^9 / {score} instructions, {}; median of {repeat}; seed {seed}.\n",
        engine.name(),
        loads.join(", "),
    );
    let rejected = walked.tries.iter().filter(|done| done.score.is_err()).count();
    line(
        &mut text,
        format_args!("{} tries, {rejected} rejected; {}.", walked.tries.len(), ended(&walked.ended)),
    );
    if walked.base_score.is_nan() {
        return text;
    }
    let percent = walked.repeatability * 100.0;
    line(&mut text, format_args!("Two measurements of the base differ by up to {percent:.2} %.\n"));
    line(&mut text, format_args!("| kept | score | of the base |\n|---|---|---|"));
    for point in &walked.kept {
        let score = score_of(walked, point);
        let percent = (score / walked.base_score - 1.0) * 100.0;
        line(&mut text, format_args!("| {} | {score:.0} | {percent:+.2} % |", space.changes(point)));
    }
    line(
        &mut text,
        format_args!("\nWith this instead of what the best set has:\n\n| switch | score |\n|---|---|"),
    );
    for effect in effects(walked, space) {
        let shown = effect.percent.map_or_else(
            || format!("rejected: {}", effect.rejected.replace(['|', '\n'], " ")),
            |percent| format!("{percent:+.2} %"),
        );
        line(&mut text, format_args!("| {}={} | {shown} |", effect.key, effect.value.trim_matches('"')));
    }
    text
}

fn json_form(walked: &Walked, space: &Space, conditions: &Conditions) -> String {
    let effects: Vec<_> = effects(walked, space)
        .into_iter()
        .map(|effect| json!({ "key": effect.key, "value": effect.value, "percent": effect.percent, "rejected": effect.rejected }))
        .collect();
    let kept: Vec<_> = walked
        .kept
        .iter()
        .map(|point| json!({ "changes": space.changes(point), "score": score_of(walked, point) }))
        .collect();
    let value = json!({
        "conditions": conditions,
        "ended": ended(&walked.ended),
        "tries": walked.tries.len(),
        "repeatability": walked.repeatability,
        "base_score": walked.base_score,
        "best_score": walked.best_score,
        "best": space.settings(&walked.best),
        "kept": kept,
        "effects": effects,
    });
    format!("{value:#}\n")
}

/// Points that differ from the best one in one parameter, as far as they were tried.
fn effects(walked: &Walked, space: &Space) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (at, parameter) in space.0.iter().enumerate() {
        for (value, name) in
            parameter.values.iter().enumerate().filter(|&(value, _)| value != walked.best[at])
        {
            let mut point = walked.best.clone();
            point[at] = value;
            let Some(tried) = tries_of(walked, &point).next() else { continue };
            effects.push(Effect {
                key: parameter.key.clone(),
                value: name.clone(),
                percent: tried
                    .score
                    .is_ok()
                    .then(|| (score_of(walked, &point) / walked.best_score - 1.0) * 100.0),
                rejected: tried.score.clone().err().unwrap_or_default(),
            });
        }
    }
    effects
}

fn tries_of<'a>(walked: &'a Walked, point: &'a Point) -> impl Iterator<Item = &'a Try> {
    walked.tries.iter().filter(move |done| done.point == *point)
}

/// The middle of the base's; the worst of any other's, as the walk counts them.
fn score_of(walked: &Walked, point: &Point) -> f64 {
    if tries_of(walked, point).any(|done| done.role == Role::Base) {
        return walked.base_score;
    }
    tries_of(walked, point).filter_map(|done| done.score.as_ref().ok()).copied().fold(f64::INFINITY, f64::min)
}

fn ended(ended: &Ended) -> String {
    match ended {
        Ended::BaseRejected(why) => format!("the base itself was rejected: {why}"),
        Ended::Found => "neither one nor two changes gain more".into(),
        Ended::OutOfTime => "stopped by --time-max".into(),
        Ended::OutOfTries => "stopped by --tries-max".into(),
    }
}

fn line(text: &mut String, args: std::fmt::Arguments<'_>) {
    writeln!(text, "{args}").expect("a string takes everything");
}
