//! Names that modules export.

use object::{Object, ObjectSymbol};

use crate::module::Module;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export<'a> {
    /// Name without a version.
    pub name: &'a str,
    /// Address in the process.
    pub address: u64,
    /// In bytes; 0 if unknown.
    pub size: u64,
}

impl Module {
    /// The module's exports, in no order. Empty where its file has no dynamic symbols that can be read.
    pub fn exports(&self) -> Vec<Export<'_>> {
        let Ok(file) = object::File::parse(&*self.bytes) else { return Vec::new() };
        let export = |symbol: object::Symbol<'_, '_>| {
            let name = symbol.name().ok().filter(|name| !name.is_empty())?;
            // Names are borrowed from the file, not from the parsed form of it.
            let start = name.as_ptr() as usize - self.bytes.as_ptr() as usize;
            let name = std::str::from_utf8(self.bytes.get(start..start + name.len())?).ok()?;
            Some(Export { name, address: self.bias.wrapping_add(symbol.address()), size: symbol.size() })
        };
        file.dynamic_symbols().filter(|symbol| symbol.is_definition()).filter_map(export).collect()
    }

    /// The address of an exported function in the process.
    pub fn export(&self, name: &str) -> Option<u64> {
        self.exports().into_iter().find(|export| export.name == name).map(|export| export.address)
    }
}
