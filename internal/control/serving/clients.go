package serving

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"ephor.invalid/ephor/internal/admission"
)

// Clients returns the configuration of the clients whose requests the admission server answers.
func (f *ClientFlags) Clients(log *slog.Logger) (admission.Clients, error) {
	c := admission.Clients{Names: f.clientNames, MinVersion: f.minVersion, QPS: f.sourceQPS, Burst: f.sourceBurst}
	if f.clientCA == "" {
		return c, nil
	}
	ca := &authorities{file: f.clientCA, now: time.Now, log: log}
	if _, err := ca.pool(); err != nil {
		return c, err
	}
	c.Authorities = ca.pool
	return c, nil
}

// authorities reads certificates from a file, which may be replaced at any time because it belongs to a mounted ConfigMap or Secret.
type authorities struct {
	file string
	now  func() time.Time
	log  *slog.Logger

	mu      sync.Mutex
	trouble string // the last logged error
	looked  time.Time
	changed time.Time
	last    *x509.CertPool
}

// lookAgain is the pause between two reads of the file.
const lookAgain = 5 * time.Second

// pool returns the certificates of the file. If a new version of the file cannot be read, the last valid version stays in use, and the log says so.
func (a *authorities) pool() (*x509.CertPool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if a.last != nil && now.Sub(a.looked) < lookAgain {
		return a.last, nil
	}
	a.looked = now
	info, err := os.Stat(a.file)
	if err == nil && a.last != nil && info.ModTime().Equal(a.changed) {
		return a.last, nil
	}
	if err == nil {
		var text []byte
		if text, err = os.ReadFile(a.file); err == nil {
			pool := x509.NewCertPool()
			if pool.AppendCertsFromPEM(text) {
				a.last, a.changed, a.trouble = pool, info.ModTime(), ""
				return pool, nil
			}
			err = fmt.Errorf("%s contains no certificate", a.file)
		}
	}
	if a.last == nil {
		return nil, fmt.Errorf("--client-ca-file: %w", err)
	}
	if text := err.Error(); text != a.trouble {
		a.trouble = text
		a.log.Warn("the authorities for client certificates cannot be read again: the earlier ones stay in use", "flag", "--client-ca-file", "error", err)
	}
	return a.last, nil
}
