"""The server answers its own page and nothing else."""

from pathlib import Path

from helpers.app_visitor import AppServer


def test_foreign_hosts_and_origins_are_refused(server: AppServer) -> None:
    """DNS rebinding and cross-site requests get nothing."""
    here = f"127.0.0.1:{server.port}"
    status, page = server.ask("/")
    assert status == 200
    assert b"layer-stage" in page
    assert server.ask("/", Host=f"localhost:{server.port}")[0] == 200
    assert server.ask("/theme.css", Origin=f"http://{here}")[0] == 200
    names = ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", "0.0.0.0", "me@127.0.0.1")
    for host in (*names, "", "[", "127.0.0.1:x", "127.0.0.1/"):
        status, body = server.ask("/", Host=host)
        assert status in (400, 403), host
        assert b"layer-stage" not in body
    origins = ("http://evil.example", "null", f"https://{here}", "http://127.0.0.1:1", f"http://{here}.evil.example")
    for origin in origins:
        for path, method in (("/", "GET"), ("/gradio_api/upload", "POST"), ("/gradio_api/queue/join", "POST")):
            assert server.ask(path, method, Origin=origin)[0] == 403


def test_no_path_returns_another_file(server: AppServer, tmp_path: Path) -> None:
    """No path, however it is written, returns a file from the disk or makes the server contact another host."""
    secret = tmp_path / "secret.txt"
    secret.write_text("private")
    (server.cache / "left.txt").write_text("private")
    up = "../" * 12
    targets = [
        str(secret),
        f"{up}{str(secret)[1:]}",
        f"{server.cache}/{up}{str(secret)[1:]}",
        f"{server.cache}/left.txt",
    ]
    routes = (
        "/gradio_api/file=",
        "/file=",
        "/gradio_api/file/",
        "/static/",
        "/assets/",
        "/svelte/",
        "/gradio_api/stream/",
    )
    for target in targets:
        for route in routes:
            for written in (target, target.replace("/", "%2f"), target.replace("..", "%2e%2e")):
                status, body = server.ask(route + written)
                assert status >= 400, route + written
                assert b"private" not in body
    (server.cache / "left.txt").unlink()
    for path in ("file=http://127.0.0.1:9/", "proxy=http://127.0.0.1:9/", "info", "process_recording", "deep_link"):
        assert server.ask(f"/gradio_api/{path}")[0] == 403
    for path in ("/config", "/monitoring", "/docs", "/openapi.json", "/login"):
        assert server.ask(path)[0] == 403
