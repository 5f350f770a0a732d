package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/certs"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/decision/store"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/telemetry"
)

// decisionSender is the name in the certificates of processes that send decisions. No host has this name.
const decisionSender = "decisions-sender"

// channelFlags name the Secrets of one end of the channel between the processes that record decisions and the store.
type channelFlags struct{ caSecret, tlsSecret string }

func (f *channelFlags) register(fs *pflag.FlagSet, prefix, end string) {
	fs.StringVar(&f.caSecret, prefix+"CASecretName", "", "Secret that holds the certificate authority of the connection to the decision store; the admission and the reports controller name the same Secret")
	fs.StringVar(&f.tlsSecret, prefix+"TLSSecretName", "", "Secret that holds the certificate of "+end+"; both Secrets are created if missing")
}

// keeper returns the certificates of one end of the channel, and the row that renews them.
func (f *channelFlags) keeper(o *telemetry.Telemetry, cfg *rest.Config, name string, names certs.Names, client bool) (*certs.Keeper, controller.Row, error) {
	keeper := &certs.Keeper{}
	task, err := o.Certificate(name, cfg, keeper, certs.Config{
		CASecret: f.caSecret, TLSSecret: f.tlsSecret, Algorithm: certs.ECDSA, Names: names, Client: client, RenewBefore: 15 * 24 * time.Hour,
	})
	if err == nil {
		o.ObserveCertificates(keeper)
	}
	return keeper, task, err
}

// senderNames returns the names in the certificates of processes that send decisions.
func senderNames() certs.Names {
	return certs.Names{Common: decisionSender, DNS: []string{decisionSender}}
}

// decisionStoreFlags configure the decision store of the reports controller.
type decisionStoreFlags struct {
	address string
	bytes   int64
	age     time.Duration
	port    int
	service string
	cluster string
	channel channelFlags
}

func (f *decisionStoreFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.address, "decisionsStore", "", "where to store the decisions of the admission controller: sqlite:PATH for a file, postgres://USER@HOST/DATABASE for a database (with the password in PGPASSWORD), or another store that --decisions accepts; empty to store none. The admission controller sends them to --decisionsStorePort, and the dashboard shows them")
	fs.Int64Var(&f.bytes, "decisionsStoreSize", 1<<30, "maximum size of the store in bytes; when it is reached, the oldest decisions are deleted")
	fs.DurationVar(&f.age, "decisionsStoreAge", 720*time.Hour, "age at which decisions are deleted; 0 to keep them")
	fs.IntVar(&f.port, "decisionsStorePort", 9445, "port on which decisions are received")
	fs.StringVar(&f.service, "decisionsStoreService", "kyverno-reports-controller-decisions", "Service of the decision store; its certificate is issued for this name")
	fs.StringVar(&f.cluster, "decisionsStoreCluster", "", "name of the cluster whose decisions are shown, as set by --decisionsCluster of its admission controller; empty for all clusters")
	f.channel.register(fs, "decisionsStore", "the store")
}

func (f *decisionStoreFlags) complete() error {
	if f.address == "" {
		return nil
	}
	var errs []error
	if f.channel.caSecret == "" || f.channel.tlsSecret == "" {
		errs = append(errs, errors.New("--decisionsStore needs --decisionsStoreCASecretName and --decisionsStoreTLSSecretName"))
	}
	if f.port < 1 || f.port > 65535 {
		errs = append(errs, errors.New("--decisionsStorePort must be a port"))
	}
	if f.bytes < 1<<20 {
		errs = append(errs, errors.New("--decisionsStoreSize must be at least 1048576"))
	}
	if f.age < 0 {
		errs = append(errs, errors.New("--decisionsStoreAge must not be negative"))
	}
	return errors.Join(errs...)
}

// keepDecisions opens the store, and adds the rows with which every replica receives decisions.
func (c *reporting) keepDecisions() error {
	f := &c.flags.decisions
	if f.address == "" {
		return nil
	}
	to, err := store.Open(f.address, store.Options{
		MaxBytes: f.bytes, MaxAge: f.age, Damaged: storeDamaged(c.events, c.env, event.ScanController), Now: time.Now, Log: c.log,
	})
	if err != nil {
		return fmt.Errorf("--decisionsStore: %w", err)
	}
	keeper, renew, err := f.channel.keeper(c.base.observing, c.base.cfg, "decisions-certificates", certs.ServiceNames(f.service, c.env.namespace, ""), false)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(f.port)))
	if err != nil {
		return fmt.Errorf("take decisions: %w", err)
	}
	c.decisions, _ = to.(decision.Reader)
	receiver := store.NewReceiver(to, c.log)
	c.served = append(c.served, renew, controller.Row{Name: "decisions", Sources: []controller.Source{controller.Func(func(ctx context.Context, _ func(string)) error {
		err := receiver.Serve(ctx, listener, keeper.ServerTLS(decisionSender))
		return errors.Join(err, to.Close())
	})}})
	c.log.Info("receiving decisions", "address", listener.Addr().String())
	return nil
}

// sendDecisions returns the TLS configuration for sending decisions to a store, and the row that renews the certificate. It returns nothing
// if decisions are not sent.
func sendDecisions(f *channelFlags, o *telemetry.Telemetry, cfg *rest.Config) (configure func() (*tls.Config, error), renew *controller.Row, err error) {
	if f.caSecret == "" && f.tlsSecret == "" {
		return nil, nil, nil
	}
	if f.caSecret == "" || f.tlsSecret == "" {
		return nil, nil, errors.New("--decisionsCASecretName and --decisionsTLSSecretName go together")
	}
	keeper, task, err := f.keeper(o, cfg, "decisions-sender-certificates", senderNames(), true)
	if err != nil {
		return nil, nil, err
	}
	return keeper.ClientTLS, &task, nil
}
