# A value for every setting, other than its default. The tests compare the list with the bridge's
# own.
{
  allow_self_server = true;
  allow_unenforced = [
    "memory"
    "pids"
  ];
  container_user = "1000:1000";
  cpus = 1.5;
  engine_host = "unix:///run/engine.sock";
  grace = "500ms";
  guest_image_inputs = "/var/lib/inputs";
  http = "127.0.0.1:9000";
  http_token_file = "/run/keys/token";
  image = "guest@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
  image_archive = "/var/lib/guest.tar";
  image_lock = "/var/lib/lock.json";
  log_level = "debug";
  max_run = "2h";
  max_sessions = 4;
  max_timeout = "5m";
  memory = "1.5g";
  oci_runtime = "crun";
  open_files = 512;
  output_limit = "4m";
  output_mode = "toon";
  output_tokens = 2000;
  pids = 64;
  project = true;
  runtime = "podman";
  runtime_idle_timeout = 60;
  servers_config = "/var/lib/servers.json";
  session_idle = "1h";
  spare = false;
  state_dir = "/var/lib/state";
  store_file_count = 500;
  store_files = "16m";
  store_memory = "8m";
  store_memory_count = 1000;
  store_tools = 100;
  store_value = "1m";
  timeout = 60;
}
