//! Starts the components that a configuration needs, and serves until the process is stopped.

use crate::build::engine::announce;
use crate::control_plane::ControlPlane;
use crate::exit::{Exit, Failure};
use crate::operator::Operator;
use crate::parent;
use crate::program::Program;
use crate::reload::watch::{Watch, Watched};
use crate::reload::{ConfigFile, GenerationFiles, Generations, Read, SharedState};
use crate::sockets::inherit;
use crate::sockets::systemd::Manager;
use crate::stats::server::ServerStats;
use crate::supervisor::Supervisor;
use crate::supervisor::queue::Message;
use doorbell_proxy_config::Config;
use std::sync::Arc;

/// Serves until a signal or command stops the process. `origin` names the source of the
/// configuration; `reread` reads it for a reload.
///
/// # Errors
/// What prevents the start, with the exit code.
pub fn run(config: Config, origin: &str, reread: Option<Read>, program: Program) -> Result<Exit, Failure> {
    inherit::set_close_on_exec(&|name| std::env::var(name).ok());
    let supervisor = Supervisor::start()?;
    let operator = Operator::new(supervisor.queue(), program);
    crate::reaper::start().map_err(Failure::no_thread)?;
    let queue = supervisor.queue();
    parent::on_command_end(move |end| queue.send(Message::CommandEnded(end))).map_err(Failure::no_thread)?;
    let started = config.clone();
    let is_configured = reread.is_some();
    crate::sockets::descriptor_store::close_overlapping(&started);
    // Bound before anything is served, so that an unusable address prevents the start.
    let admin = started
        .admin
        .as_ref()
        .map(|admin| crate::operator::admin::bind(admin, &started))
        .transpose()?
        .flatten();
    let guard = Arc::new(crate::operator::admin::Guard::closed());
    let shared = SharedState::new(operator.clone(), Arc::clone(&guard));
    let generations = Generations::start(shared, supervisor.queue(), config, origin, reread)?;
    let reloads = Arc::downgrade(&generations);
    operator.on_reload(move || match reloads.upgrade() {
        Some(generations) => generations.reload(),
        None => Err("doorbell is stopping".to_owned()),
    });
    let control_plane =
        ControlPlane::start(&started, &operator, is_configured).map_err(Failure::no_thread)?;
    let admin_addr = admin.as_ref().and_then(|admin| admin.addr().ok());
    admin_addr.into_iter().for_each(|addr| operator.set_admin(addr));
    if let Some(admin) = admin {
        control_plane.runtime().spawn(admin.serve(operator.clone(), guard));
    }
    // The code that read options and files is rarely needed again.
    let forgotten = doorbell::forget_code_pages();
    tracing::debug!(bytes = forgotten, "released code pages used at startup");
    announce(&operator, &started, &control_plane, admin_addr);
    crate::sockets::activation::warn_of_unused(&started);
    let mut watched: Vec<Box<dyn Watched>> = Vec::new();
    watched.extend(generations.shared().take_files());
    watched
        .extend(ConfigFile::watched(&generations, &operator).map(|file| Box::new(file) as Box<dyn Watched>));
    if is_configured || generations.has_awaited() {
        watched.push(Box::new(GenerationFiles::watched(&generations)));
    }
    let watch = Watch::start(watched).map_err(Failure::no_thread)?;
    let manager = Manager::start(&started, &operator).map_err(Failure::no_thread)?;
    let ended = supervisor.serve(&operator, &generations);
    drop(manager);
    operator.events().end();
    drop(control_plane);
    drop(watch);
    generations.shared().end_sharing();
    generations.shared().end_history();
    if ended.is_ok() {
        log_summary(&operator, &generations);
    }
    ended
}

/// Logs a summary of served and refused connections and requests at the end.
fn log_summary(operator: &Operator, generations: &Generations) {
    let Some(running) = operator.running() else { return };
    let (stats, server_stats) = (running.process_stats.stats(), &running.server_stats);
    let http2 = server_stats.http2_served();
    let lost = server_stats.access_lost();
    tracing::info!(
        connections = stats.conns_accepted,
        requests = stats.requests,
        http2_connections = http2.map(|(connections, _)| connections),
        http2_requests = http2.map(|(_, requests)| requests),
        checks = server_stats.checks_run(),
        access_dropped = lost.map(|(dropped, _)| dropped),
        access_failed = lost.map(|(_, failed)| failed),
        log_lost = Some(crate::log::lines_lost()).filter(|lost| *lost > 0),
        connects = server_stats.connects(),
        jobs = generations.shared().has_compute().then(|| server_stats.jobs(&stats)),
        refused = server_stats.refused(running.process_stats.refusals(), &stats),
        closed = ServerStats::closed(&stats),
        "stopped"
    );
}
