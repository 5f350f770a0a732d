package decisions

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/certs"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/decision/store"
)

// StoreFlags configure the decision store of the reports controller.
type StoreFlags struct {
	address string
	bytes   int64
	age     time.Duration
	port    int
	service string
	cluster string
	channel channelFlags
}

// Register adds the flags.
func (f *StoreFlags) Register(fs *pflag.FlagSet) {
	fs.StringVar(&f.address, "decisionsStore", "", "where to store the decisions of the admission controller: "+store.ReadForms()+" (with the password in PGPASSWORD), or another store that --decisions accepts; empty to store none. The admission controller sends them to --decisionsStorePort, and the dashboard shows them")
	fs.Int64Var(&f.bytes, "decisionsStoreSize", 1<<30, "maximum size of the store in bytes; when it is reached, the oldest decisions are deleted")
	fs.DurationVar(&f.age, "decisionsStoreAge", 720*time.Hour, "age at which decisions are deleted; 0 to keep them")
	fs.IntVar(&f.port, "decisionsStorePort", 9445, "port on which decisions are received")
	fs.StringVar(&f.service, "decisionsStoreService", "kyverno-reports-controller-decisions", "Service of the decision store; its certificate is issued for this name")
	fs.StringVar(&f.cluster, "decisionsStoreCluster", "", "name of the cluster whose decisions are shown, as set by --decisionsCluster of its admission controller; empty for all clusters")
	f.channel.register(fs, "decisionsStore", "the store")
}

// Complete checks the flags together.
func (f *StoreFlags) Complete() error {
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

// Cluster returns the name of the cluster whose decisions are shown; empty for all.
func (f *StoreFlags) Cluster() string { return f.cluster }

// OpenStore opens the store, and returns it for reading, with the rows with which every replica receives decisions. Without a store it returns nothing.
func (f *StoreFlags) OpenStore(p Process) (decision.Reader, []controller.Row, error) {
	if f.address == "" {
		return nil, nil, nil
	}
	log := p.Telemetry.Log
	to, err := store.Open(f.address, store.Options{MaxBytes: f.bytes, MaxAge: f.age, Damaged: p.damaged, Now: time.Now, Log: log})
	if err != nil {
		return nil, nil, fmt.Errorf("--decisionsStore: %w", err)
	}
	keeper, renew, err := f.channel.keeper(p, "decisions-certificates", certs.ServiceNames(f.service, p.Telemetry.Process.Namespace, ""), false)
	if err != nil {
		return nil, nil, err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(f.port)))
	if err != nil {
		return nil, nil, fmt.Errorf("take decisions: %w", err)
	}
	reader, _ := to.(decision.Reader)
	receiver := store.NewReceiver(to, log)
	receive := controller.Row{Name: "decisions", Sources: []controller.Source{controller.Serve(listener, func(ctx context.Context, l net.Listener) error {
		err := receiver.Serve(ctx, l, keeper.ServerTLS(sender))
		if ctx.Err() != nil {
			err = errors.Join(err, to.Close())
		}
		return err
	})}}
	log.Info("receiving decisions", "address", listener.Addr().String())
	return reader, []controller.Row{renew, receive}, nil
}
