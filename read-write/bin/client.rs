//! The client as a program; all of it is in [`read_write::client`].

fn main() {
    read_write::client::main();
}
