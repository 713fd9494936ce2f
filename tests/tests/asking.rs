//! Servers that ask the user while code runs, end to end, with the official Python SDK as the
//! client and the stub as the server.

use integration_tests::bridge::Builder;
use integration_tests::{EngineUnderTest, each_engine, sdk};

use crate::servers::stub;

fn heavy_servers_ask_the_client(engine: &EngineUnderTest) {
    let told = sdk::job(
        Builder::new(Some(engine)),
        "asking_job.py",
        &["--stub", &stub()],
    );
    assert!(told.contains("\n0 failed\n"), "{told}");
}

each_engine!(heavy_servers_ask_the_client);
