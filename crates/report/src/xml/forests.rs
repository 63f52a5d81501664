//! The threads of a process with their forests; in recordings of activations
//! (`--mode intra`) those of each function by themselves, as in listing 4.25.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Display;
use std::io;

use analysis::{Forest, NodeId, Weight};
use trace::{Label, Process};

use super::Hex;
use super::writer::Writer;
use crate::metrics::{self, Metric};
use crate::paper::is_counted;
use crate::{Report, Section};

/// Whose contexts a tree holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    /// Its root is no basic block: what was truncated.
    Thread,
    /// The block is in no function that is known.
    Unknown,
    /// Module and first address.
    Function(Option<u32>, u64),
}

/// Which forest.
#[derive(Clone, Copy)]
enum Kind {
    Ksf,
    Kccf,
}

/// The roots of some trees: of the k-SF, and of the k-CCF.
#[derive(Default)]
struct Roots {
    ksf: Vec<NodeId>,
    kccf: Vec<NodeId>,
}

pub fn write(report: &Report, at: usize, process: &Process, xml: &mut Writer) -> io::Result<()> {
    let sections = report.sections.iter();
    let sections: Vec<&Section> = sections.filter(|section| section.process == at).collect();
    write_labels(&sections, xml)?;
    let blocks = report.recording.meta.blocks;
    let is_intra = blocks.is_some_and(|blocks| blocks.intra);
    let metrics = metrics::of(report).into_iter();
    let inclusive: Vec<Metric> = metrics.filter(|_| report.knows_inclusive()).collect();
    xml.open("threads", &[])?;
    for section in &sections {
        write_thread(process, section, is_intra, &inclusive, xml)?;
    }
    let shown = sections.iter().flat_map(|section| &section.threads);
    let shown: HashSet<&usize> = shown.collect();
    for (number, thread) in process.threads.iter().enumerate() {
        // It counted nothing.
        if !shown.contains(&number) {
            xml.open("thread", &[("events", &0)])?;
            xml.text("id", &[], &thread.tid)?;
            xml.close()?;
        }
    }
    xml.close()
}

/// The names of labels that are neither functions nor blocks.
fn write_labels<'a>(sections: &[&'a Section], xml: &mut Writer) -> io::Result<()> {
    let forests = sections
        .iter()
        .flat_map(|section| section.ksf.iter().chain(&section.kccf));
    let counted = |forest: &'a Forest| {
        let nodes = forest.nodes().filter(|&node| is_counted(forest, node));
        nodes.map(|node| forest.label(node))
    };
    let labels = forests.flat_map(counted);
    let special = labels.filter(|label| !label.is_function());
    let names: BTreeMap<u32, Label> = special.map(|label| (label.0, label)).collect();
    xml.open("labels", &[])?;
    for (id, label) in names {
        xml.text("label", &[("id", &id)], &label)?;
    }
    xml.close()
}

fn write_thread(
    process: &Process,
    section: &Section,
    is_intra: bool,
    inclusive: &[Metric],
    xml: &mut Writer,
) -> io::Result<()> {
    xml.open("thread", &[("events", &section.total(Weight::Calls))])?;
    for &thread in &section.threads {
        xml.text("id", &[], &process.threads[thread].tid)?;
    }
    let owner = |label| match is_intra {
        true => owner_of(process, label),
        false => Owner::Thread,
    };
    let (mut owners, mut roots) = by_owner(section, owner);
    if !is_intra || owners.contains(&Owner::Thread) {
        let own = roots.remove(&Owner::Thread).unwrap_or_default();
        write_forests(section, &own, inclusive, xml)?;
    }
    owners.retain(|&owner| owner != Owner::Thread);
    if !owners.is_empty() {
        xml.open("intraMode_ctx", &[])?;
        for owner in owners {
            xml.open("func_ctx", &[])?;
            if let Owner::Function(_, first) = owner {
                xml.text("funcAddr", &[], &Hex(first))?;
            }
            let own = roots.remove(&owner).unwrap_or_default();
            write_forests(section, &own, inclusive, xml)?;
            xml.close()?;
        }
        xml.close()?;
    }
    xml.close()
}

fn owner_of(process: &Process, label: Label) -> Owner {
    let (function, block) = match (process.function(label), process.block(label)) {
        (Some(function), Some(block)) => (function, block),
        _ => return Owner::Thread,
    };
    match &block.function {
        Some(_) => Owner::Function(function.module, function.pc.wrapping_sub(block.offset)),
        None => Owner::Unknown,
    }
}

/// The owners in the order of their first trees, and the trees of each.
fn by_owner(
    section: &Section,
    owner: impl Fn(Label) -> Owner,
) -> (Vec<Owner>, HashMap<Owner, Roots>) {
    let mut owners = Vec::new();
    let mut all: HashMap<Owner, Roots> = HashMap::new();
    for (kind, forest) in [(Kind::Ksf, &section.ksf), (Kind::Kccf, &section.kccf)] {
        let Some(forest) = forest else { continue };
        let roots = forest.roots().iter();
        for &root in roots.filter(|&&root| is_counted(forest, root)) {
            let owner = owner(forest.label(root));
            let roots = all.entry(owner).or_insert_with(|| {
                owners.push(owner);
                Roots::default()
            });
            match kind {
                Kind::Ksf => roots.ksf.push(root),
                Kind::Kccf => roots.kccf.push(root),
            }
        }
    }
    (owners, all)
}

fn write_forests(
    section: &Section,
    roots: &Roots,
    inclusive: &[Metric],
    xml: &mut Writer,
) -> io::Result<()> {
    let forests = [
        ("kSF", &section.ksf, &roots.ksf),
        ("kCCF", &section.kccf, &roots.kccf),
    ];
    for (name, forest, roots) in forests {
        if let Some(forest) = forest {
            xml.open(name, &[])?;
            write_nodes(forest, roots, inclusive, xml)?;
            xml.close()?;
        }
    }
    Ok(())
}

fn write_nodes(
    forest: &Forest,
    roots: &[NodeId],
    inclusive: &[Metric],
    xml: &mut Writer,
) -> io::Result<()> {
    let inclusive = inclusive.iter().filter_map(|metric| {
        let values = forest.inclusive(metric.weight)?;
        Some((metric.inclusive, values))
    });
    let inclusive: Vec<(&'static str, Vec<u64>)> = inclusive.collect();
    for node in forest.preorder_of(roots) {
        if !is_counted(forest, node) {
            continue;
        }
        let (id, of, count) = (node.index(), forest.label(node).0, forest.count(node));
        let parent = forest.parent(node).map(NodeId::index);
        let costs = forest.costs();
        let costs: Vec<_> = costs
            .map(|cost| (cost.name(), forest.cost(cost, node)))
            .collect();
        let mut attributes: Vec<(&'static str, &dyn Display)> = vec![("id", &id)];
        attributes.extend(parent.iter().map(|parent| ("parent", parent as _)));
        attributes.push(("of", &of));
        attributes.push(("count", &count));
        attributes.extend(costs.iter().map(|(name, value)| (*name, value as _)));
        let inclusive = inclusive.iter();
        attributes.extend(inclusive.map(|(name, values)| (*name, &values[node.index()] as _)));
        xml.empty("node", &attributes)?;
    }
    Ok(())
}
