//! llama.cpp's RPC server, which holds a model's matrices for another machine, by its transport over RDMA. A client has it
//! multiply some and compares. Either side falls back to TCP where it finds no device, so both have to say that they did
//! not.
//!
//! `conformance/engines --llama` builds the server and runs these tests.

use std::fs;
use std::path::PathBuf;

use programs::hosts::{Hosts, assert_gone};
use programs::place::Place;
use programs::program::Program;
use programs::{LOCALHOST, assert_has, compile_with, installed, tcp, the_processors};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/llama/matrices.c");

const SERVER: &str = "ggml-rpc-server";

/// The line of both sides about a connection.
const BY_RDMA: &str = "RDMA activated: ";

/// The server's first line about one.
const ACCEPTED: &str = "Accepted client connection";

/// Of all sizes of matrices.c.
const SIZES: [&str; 5] =
    ["8 bytes: ", "4096 bytes: ", "65536 bytes: ", "1048576 bytes: ", "67108864 bytes: "];

/// Makes the client, if that can be done here.
fn client(place: &Place) -> Option<String> {
    if !installed(&[SERVER]) {
        return None;
    }
    let folder = PathBuf::from(std::env::var_os("SOFT_HCA_LLAMA").unwrap());
    let option = |begin: &str, path: PathBuf| format!("{begin}{}", path.display());
    let options = [
        option("-isystem", folder.join("include")),
        option("-L", folder.clone()),
        option("-Wl,-rpath,", folder),
    ];
    let options = options.each_ref().map(String::as_str);
    compile_with(place, SOURCE, &["ggml", "ggml-rpc", "ggml-base"], &options)
}

/// Starts a server that listens.
fn serve(place: &Place, address: &str, port: u16) -> Program {
    let mut server = place.start(&format!("{SERVER} --host {address} --port {port} --threads 1"));
    let pid = server.pid();
    server.wait_until(|| tcp::listens_near(pid, port));
    server
}

/// Sees that a client gets all products, by RDMA, as all that the server was asked is.
fn expect(client: &mut Program, server: &Program) {
    let text = client.succeed();
    assert_has(&text, &SIZES);
    assert_has(&text, &[BY_RDMA]);
    let said = server.output();
    let [connections, by_rdma] = [ACCEPTED, BY_RDMA].map(|line| said.matches(line).count());
    assert!(connections > 0 && by_rdma == connections, "{said}");
}

/// The second client comes after one that was killed.
#[test]
#[ignore = "conformance/engines --llama brings what it runs"]
fn on_one_host() {
    let place = Place::new("llama");
    let Some(program) = client(&place) else { return };
    let _processors = the_processors();
    let port = tcp::free_port();
    let mut server = serve(&place, LOCALHOST, port);
    let line = format!("{program} {LOCALHOST}:{port}");
    let mut killed = place.start(&line);
    let output = killed.output_file();
    killed.wait_until(|| fs::read_to_string(&output).unwrap().contains(SIZES[2]));
    killed.kill();
    expect(&mut place.start(&line), &server);
    server.kill();
    place.assert_gone();
}

#[test]
#[ignore = "conformance/engines --llama brings what it runs"]
fn between_two_hosts() {
    let Some(hosts) = Hosts::new("llama-hosts") else { return };
    let Some(program) = client(&hosts.a.place) else { return };
    let _processors = the_processors();
    let port = tcp::free_port();
    let address = hosts.b.address;
    let mut server = serve(&hosts.b.place, address, port);
    expect(&mut hosts.a.place.start(&format!("{program} {address}:{port}")), &server);
    server.kill();
    assert_gone(&hosts);
}
