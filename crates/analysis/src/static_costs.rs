//! Costs of contexts of basic blocks: a block is executed as a whole, so its code gives
//! the costs of each execution.
//!
//! Limits: a block that a fault or a signal cut short, and that nobody went on with,
//! counts whole. Blocks beyond the limit of nodes are not known apart, and cost nothing.

use hashbrown::HashMap;
use isa::Insn;
use trace::{Block, Cost, Costs, Label, Recording};

/// Gives the nodes of blocks these costs; cycles are none that code could tell.
pub fn add(recording: &mut Recording, costs: &[Cost]) {
    for process in &mut recording.processes {
        let of_block: HashMap<Label, [u64; Cost::ALL.len()]> = process
            .blocks
            .iter()
            .map(|block| (Label(block.id), of_execution(block)))
            .collect();
        for thread in &mut process.threads {
            for &cost in costs.iter().filter(|&&cost| cost != Cost::Cycles) {
                let values = thread.nodes.iter().map(|node| {
                    let once = of_block.get(&node.label).map_or(0, |of| of[cost.index()]);
                    node.count.saturating_mul(once)
                });
                let values: Vec<u64> = values.collect();
                if cost == Cost::Instructions {
                    thread.insns = values.iter().copied().fold(0, u64::saturating_add);
                }
                thread.costs.retain(|known| known.cost != cost);
                thread.costs.push(Costs { cost, values });
            }
        }
    }
}

/// Costs of one execution of a block, by [`Cost::index`].
fn of_execution(block: &Block) -> [u64; Cost::ALL.len()] {
    let mut sums = [0; Cost::ALL.len()];
    let mut code = block.code.as_slice();
    // Nothing of what is counted depends on where it lies.
    while let Ok(insn) = Insn::decode(code, 0) {
        let [branch, load, store] = insn.class().amounts().map(u64::from);
        sums[Cost::Instructions.index()] += 1;
        sums[Cost::Branches.index()] += branch;
        sums[Cost::Loads.index()] += load;
        sums[Cost::Stores.index()] += store;
        code = &code[insn.len()..];
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::{Node, Process, Thread};

    #[test]
    fn executions_cost_what_the_code_says() {
        // push rax; mov rax, [rcx]; je
        let block = Block {
            id: 300,
            function: None,
            offset: 0,
            column: None,
            code: vec![0x50, 0x48, 0x8B, 0x01, 0x74, 0x00],
        };
        let node = |label, parent, count| Node {
            label,
            parent,
            depth: u32::from(parent.is_some()),
            top: None,
            count,
        };
        let nodes = vec![
            node(Label::THREAD, None, 1),
            node(Label(300), Some(0), 7),
            node(Label::TRUNCATED, None, 5),
        ];
        let thread = Thread {
            nodes,
            ..Thread::default()
        };
        let process = Process {
            blocks: vec![block],
            threads: vec![thread],
            ..Process::default()
        };
        let mut recording = Recording {
            processes: vec![process],
            ..Recording::default()
        };
        add(&mut recording, &Cost::ALL);
        let thread = &recording.processes[0].threads[0];
        let found = |cost| thread.costs_of(cost).map(<[u64]>::to_vec);
        assert_eq!(found(Cost::Instructions), Some(vec![0, 21, 0]));
        for cost in [Cost::Branches, Cost::Loads, Cost::Stores] {
            assert_eq!(found(cost), Some(vec![0, 7, 0]), "{cost:?}");
        }
        assert_eq!(found(Cost::Cycles), None);
        assert_eq!(thread.insns, 21);
    }
}
