//! The client as a program; all of it is in [`read_write_0::client`].

fn main() {
    read_write_0::client::main();
}
