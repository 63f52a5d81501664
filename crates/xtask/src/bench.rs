//! stub
use crate::tree::Tree;
#[derive(clap::Args)]
pub struct Options {}
pub fn run(_tree: &Tree, _options: &Options) -> anyhow::Result<()> {
    Ok(())
}
