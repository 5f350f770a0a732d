package devcluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

// Postgres is a PostgreSQL server for one test. It is reached over a socket in its own directory.
type Postgres struct {
	// Address is the address of its database, for --decisionsStore.
	Address  string
	t        testing.TB
	dir, bin string
	as       *syscall.Credential // nil for the user of this process
}

// NewPostgres starts a server that runs until the test ends. It returns nil if Debian's package postgresql is not installed.
func NewPostgres(t testing.TB) *Postgres {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return nil
	}
	d := &Postgres{t: t, bin: filepath.Dir(slices.Max(found))}
	var account *user.User
	if os.Getuid() == 0 { // the server refuses to run as root
		if account, err = user.Lookup("postgres"); err != nil {
			return nil
		}
	}
	if d.dir, err = os.MkdirTemp("", "pg"); err != nil { // paths of sockets must be short
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(d.dir) })
	if account != nil {
		uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr, os.Chown(d.dir, int(uid), int(gid))); err != nil {
			t.Fatal(err)
		}
		d.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	d.Address = "postgres://ephor@/postgres?host=" + d.dir
	var out bytes.Buffer
	cmd := d.command("initdb", "-D", d.dir+"/data", "-U", "ephor", "-A", "trust", "--no-sync")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out.String())
	}
	d.Start()
	t.Cleanup(func() { _ = d.Stop() })
	return d
}

func (d *Postgres) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(d.bin, name), args...)
	cmd.Dir = d.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8") // initdb refuses a locale that is not installed, and takes the encoding from it
	if d.as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: d.as}
	}
	return cmd
}

// Start starts the server again.
func (d *Postgres) Start() {
	d.t.Helper()
	cmd := d.command("pg_ctl", "-D", d.dir+"/data", "-w", "-t", "120", "-l", d.dir+"/log", "-o", fmt.Sprintf("-c listen_addresses='' -k %s", d.dir), "start")
	if err := cmd.Run(); err != nil { // no pipe, because the server would keep it open
		text, _ := os.ReadFile(d.dir + "/log")
		d.t.Errorf("start the server: %v: %s", err, text)
	}
}

// Stop ends the server abruptly, like a crash; the next start recovers the written data.
func (d *Postgres) Stop() error {
	return d.command("pg_ctl", "-D", d.dir+"/data", "-m", "immediate", "-w", "stop").Run()
}

// Dump returns what pg_dump writes of the database.
func (d *Postgres) Dump() ([]byte, error) {
	return d.command("pg_dump", "-h", d.dir, "-U", "ephor", "postgres").Output()
}

// Run runs statements as the owner of the database, each one in its own transaction.
func (d *Postgres) Run(statements ...string) error {
	args := []string{"-h", d.dir, "-U", "ephor", "-v", "ON_ERROR_STOP=1", "-q"}
	for _, text := range statements {
		args = append(args, "-c", text)
	}
	if out, err := d.command("psql", append(args, "postgres")...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// Directory is where the server has its files.
func (d *Postgres) Directory() string { return d.dir }
