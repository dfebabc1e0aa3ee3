//! Options of the commands that judge doorbell's own techniques, and their start.
//!
//! Does not know about: how they measure or judge.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::ablate::{self, Form, NativeQuestion, Question};
use crate::error::RigError;
use crate::gate;
use crate::image::{Kernel, OurPrograms, programs};
use crate::matrix;
use crate::native::{Measure, Rules};
use crate::plan::Load;
use crate::variant::Engine;

/// Programs that are not built.
#[derive(Debug, Args)]
pub(super) struct Given {
    /// Measure this `doorbell` and build none
    #[arg(long, value_name = "FILE")]
    doorbell: Option<PathBuf>,

    /// Load with this `doorbell-load` and build none
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,
}

/// Options of `ablate`.
#[derive(Debug, Args)]
pub(super) struct AblateArgs {
    /// CPU time on this machine instead of instructions in a guest, in alternating pairs, in the full set
    #[arg(long, conflicts_with_all = ["kernel", "repeat", "cpu"])]
    native: bool,

    /// Kernels of the guest
    #[arg(long, value_name = "VERSION", value_delimiter = ',', default_value = "6.12")]
    kernel: Vec<Kernel>,

    /// Drivers; both unless said otherwise
    #[arg(long, value_name = "DRIVER", value_delimiter = ',')]
    engine: Vec<Engine>,

    /// Only these techniques, as `list` names them
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = technique)]
    only: Vec<String>,

    /// Under each of these loads; close/64, free/64 and keep/64 unless said otherwise, and natively the first and the last
    #[arg(long, value_name = "LOAD", value_delimiter = ',')]
    loads: Vec<Load>,

    /// Samples of each row; figures are medians
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,

    /// CPU model, as of QEMU's -cpu
    #[arg(long, value_name = "MODEL", default_value = "max")]
    cpu: String,

    /// Form of the report
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    output: Form,

    /// Also write the report as JSON
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Measure nothing: show what `--save` wrote
    #[arg(long, value_name = "FILE", conflicts_with = "save")]
    from: Option<PathBuf>,

    #[command(flatten)]
    turns: TurnArgs,

    #[command(flatten)]
    given: Given,
}

/// How turns are taken on this machine.
#[derive(Debug, Args)]
struct TurnArgs {
    /// Natively: pairs of turns of each technique; it is on first in every other one
    #[arg(long, value_name = "N", default_value = "5", requires = "native", value_parser = clap::value_parser!(u32).range(1..=100))]
    pairs: u32,

    /// Natively: new connections in a turn; of requests on kept connections ten times as many
    #[arg(long, value_name = "N", default_value = "20000", requires = "native", value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    requests: u64,

    /// Natively: the core of the server
    #[arg(long, value_name = "CORE", default_value = "0", requires = "native")]
    server_core: u32,

    /// Natively: the core of the load generator
    #[arg(long, value_name = "CORE", default_value = "1", requires = "native")]
    client_core: u32,
}

/// Options of `gate`.
#[derive(Debug, Args)]
pub(super) struct GateArgs {
    /// Write the figures instead of comparing
    #[arg(long)]
    write: bool,

    /// Only build what is measured, so that a later gate begins at once
    #[arg(long, conflicts_with_all = ["write", "figures"])]
    build: bool,

    /// The file of figures; the committed one unless said otherwise
    #[arg(long, value_name = "FILE")]
    figures: Option<PathBuf>,

    #[command(flatten)]
    given: Given,
}

/// Options of `matrix`.
#[derive(Debug, Args)]
pub(super) struct MatrixArgs {
    /// Kernels of the guest; all unless said otherwise
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    kernel: Vec<Kernel>,

    /// CPU model, as of QEMU's -cpu
    #[arg(long, value_name = "MODEL", default_value = "max")]
    cpu: String,

    /// Form of the report
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    output: matrix::Form,

    #[command(flatten)]
    given: Given,
}

/// The name of a technique.
fn technique(text: &str) -> Result<String, String> {
    let is_known = ablate::TECHNIQUES.iter().any(|known| known.name == text);
    if is_known { Ok(text.to_owned()) } else { Err("`doorbell-rig list` names them all".into()) }
}

impl Given {
    fn programs(&self) -> Result<OurPrograms, RigError> {
        programs::build(self.doorbell.clone(), self.load.clone())
    }
}

impl AblateArgs {
    fn loads_or(&self, usual: &[&str]) -> Vec<Load> {
        if self.loads.is_empty() {
            usual.iter().map(|load| load.parse().expect("usual loads are loads")).collect()
        } else {
            self.loads.clone()
        }
    }
}

pub(super) fn ablate(args: &AblateArgs) -> Result<(String, bool), RigError> {
    if let Some(file) = &args.from {
        return ablate::again(file, args.output);
    }
    let engines =
        if args.engine.is_empty() { Engine::value_variants().to_vec() } else { args.engine.clone() };
    if args.native {
        let TurnArgs { pairs, requests, server_core, client_core } = args.turns;
        let rules = Rules { pairs, server_core, client_core, measure: Measure::Cpu { requests } };
        let loads = args.loads_or(&["close/64", "keep/64"]);
        let question = NativeQuestion { engines, only: args.only.clone(), loads, requests, rules };
        return ablate::run_native(&question, &args.given.programs()?, args.output, args.save.as_deref());
    }
    let question = Question {
        kernels: args.kernel.clone(),
        engines,
        only: args.only.clone(),
        loads: args.loads_or(&["close/64", "free/64", "keep/64"]),
        repeat: args.repeat,
        cpu: args.cpu.clone(),
    };
    ablate::run(&question, &args.given.programs()?, args.output, args.save.as_deref())
}

pub(super) fn gate(args: &GateArgs) -> Result<(String, bool), RigError> {
    if args.build {
        return gate::build(&mut args.given.programs()?);
    }
    let file = args.figures.clone().unwrap_or_else(gate::default_file);
    gate::run(&mut args.given.programs()?, &file, args.write)
}

pub(super) fn matrix(args: &MatrixArgs) -> Result<(String, bool), RigError> {
    let kernels = if args.kernel.is_empty() { Kernel::ALL.to_vec() } else { args.kernel.clone() };
    matrix::run(&kernels, &args.cpu, &args.given.programs()?, args.output)
}
