package decisions

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/certs"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/telemetry"
)

// Process is a process that records decisions or keeps a store of them.
type Process struct {
	Config     *rest.Config // the connection to the API server
	Telemetry  *telemetry.Telemetry
	Pod        string
	Events     event.Recorder
	Controller string // in events
}

// damaged writes an event when a damaged store of decisions was moved away.
func (p Process) damaged(path string, err error) {
	p.Events.Record(event.Event{
		Regarding: event.Reference{APIVersion: "v1", Kind: "Pod", Namespace: p.Telemetry.Process.Namespace, Name: p.Pod}, Type: event.Warning, Reason: event.PolicyError, Action: event.None,
		Controller: p.Controller, Note: fmt.Sprintf("the store of decisions was damaged and moved to %s; a new store was created: %v", path, err),
	})
}

// sender is the name in the certificates of processes that send decisions. No host has this name.
const sender = "decisions-sender"

// channelFlags name the Secrets of one end of the channel between the processes that record decisions and the store.
type channelFlags struct{ caSecret, tlsSecret string }

func (f *channelFlags) register(fs *pflag.FlagSet, prefix, end string) {
	fs.StringVar(&f.caSecret, prefix+"CASecretName", "", "Secret that holds the certificate authority of the connection to the decision store; the admission and the reports controller name the same Secret")
	fs.StringVar(&f.tlsSecret, prefix+"TLSSecretName", "", "Secret that holds the certificate of "+end+"; both Secrets are created if missing")
}

// keeper returns the certificates of one end of the channel, and the row that renews them.
func (f *channelFlags) keeper(p Process, row string, names certs.Names, client bool) (*certs.Keeper, controller.Row, error) {
	return p.Telemetry.Certificate(row, p.Config, certs.Config{
		CASecret: f.caSecret, TLSSecret: f.tlsSecret, Algorithm: certs.ECDSA, Names: names, Client: client, RenewBefore: 15 * 24 * time.Hour,
	})
}

// send returns the TLS configuration for sending decisions to a store, and the row that renews the certificate. It returns nothing if decisions
// are not sent.
func (f *channelFlags) send(p Process) (configure func() (*tls.Config, error), rows []controller.Row, err error) {
	if f.caSecret == "" && f.tlsSecret == "" {
		return nil, nil, nil
	}
	if f.caSecret == "" || f.tlsSecret == "" {
		return nil, nil, errors.New("--decisionsCASecretName and --decisionsTLSSecretName go together")
	}
	keeper, renew, err := f.keeper(p, "decisions-sender-certificates", certs.Names{Common: sender, DNS: []string{sender}}, true)
	if err != nil {
		return nil, nil, err
	}
	return keeper.ClientTLS, []controller.Row{renew}, nil
}
