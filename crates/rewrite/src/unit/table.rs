//! Tables of indirect jumps, as far as counts of their ways are known.

use flow::Function;
use image::LinkAddr;

use crate::jump_tables::NewTables;

/// The table that an indirect jump goes by.
pub(super) struct Table {
    /// Address of the old one; 0: labels of a computed goto, or one of several tables where no code can be inserted on the ways to
    /// their targets. These are taken for one: how often each led to a target that they have in common is not known.
    pub old: LinkAddr,
    pub is_new: bool,
    /// Several jumps go by it.
    pub is_shared: bool,
}

impl Table {
    pub fn of(function: &Function, switches: &NewTables, jump: LinkAddr) -> Table {
        let is_new = |jump: LinkAddr| {
            let mut tables = switches.tables.iter();
            tables.any(|table| table.jumps.contains(&jump))
        };
        let own = function.tables.iter().find(|table| table.jump == jump);
        let old_ones = function.tables.iter().filter(|table| !is_new(table.jump));
        let mut others = old_ones.filter(|table| own.is_none_or(|own| own.table != table.table));
        let own = match (is_new(jump), others.next()) {
            (false, Some(_)) => None,
            _ => own,
        };
        let old = own.map_or(LinkAddr(0), |table| table.table);
        let block = function.graph.block_at(jump);
        let cases = block.map_or(&[][..], |block| function.graph.edges_of(block));
        let same = function.tables.iter().filter(|table| table.table == old);
        Table {
            old,
            is_new: is_new(jump),
            // A label that is the only one needs no table.
            is_shared: cases.len() > 1 && (old == LinkAddr(0) || same.count() > 1),
        }
    }
}
