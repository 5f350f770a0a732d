package app

import (
	"context"
	"errors"
	"sync"

	"github.com/spf13/pflag"
)

// allFlags are the flags of the process that holds all controllers: those of admission, and what the cleanup
// controller's server needs of its own.
type allFlags struct {
	admission admissionFlags
	cleanup   cleanupFlags
	service   string // of the cleanup controller
}

func (f *allFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.service, "cleanupService", "kyverno-cleanup-controller", "Service of the cleanup controller; KYVERNO_SVC is that of the admission controller")
	fs.StringVar(&f.cleanup.caSecret, "cleanupCASecretName", "", "Secret of the cleanup controller's certificate authority (required)")
	fs.StringVar(&f.cleanup.tlsSecret, "cleanupTLSSecretName", "", "Secret of the cleanup controller's serving certificate (required)")
	fs.StringVar(&f.cleanup.host, "cleanupServerHost", "", "address for the cleanup controller's server; empty for all")
	fs.IntVar(&f.cleanup.port, "cleanupServerPort", 9444, "port for the cleanup controller's server")
	fs.IntVar(&f.cleanup.deadManSeconds, "deadManSeconds", 0, "not available: needs `controller cleanup` in a process of its own")
	f.cleanup.deletion.register(fs)
	f.admission.register(fs)
}

// complete checks what cannot be seen flag by flag.
func (f *allFlags) complete(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	errs := []error{f.admission.complete(fs, lookup)}
	if f.cleanup.caSecret == "" || f.cleanup.tlsSecret == "" {
		errs = append(errs, errors.New("--cleanupCASecretName and --cleanupTLSSecretName are required"))
	}
	if f.cleanup.deadManSeconds != 0 {
		errs = append(errs, errors.New("--deadManSeconds: whoever is to notice that admission is gone must not go with it; run `controller cleanup` in a process of its own"))
	}
	c := f.admission.certificateFlags
	c.caSecret, c.tlsSecret = f.cleanup.caSecret, f.cleanup.tlsSecret
	f.cleanup.certificateFlags, f.cleanup.commonFlags, f.cleanup.events = c, f.admission.commonFlags, f.admission.events
	f.cleanup.calls, f.cleanup.globals = f.admission.calls, f.admission.globals
	errs = append(errs, f.cleanup.deletion.complete(fs, lookup))
	f.cleanup.deletion.protectManaged, f.cleanup.deletion.dumpPayload = f.admission.serving.protectManaged, f.admission.serving.dumpPayload
	return errors.Join(errs...)
}

// runAll runs all controllers until ctx is done or one of them ends.
func runAll(ctx context.Context, f *allFlags, e env, b *base) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make([]error, 2)
	var running sync.WaitGroup
	running.Go(func() {
		defer stop()
		ended[0] = runAdmission(ctx, &f.admission, e, b)
	})
	running.Go(func() {
		defer stop()
		e := e
		e.service = f.service
		ended[1] = runCleanup(ctx, &f.cleanup, e, b)
	})
	running.Wait()
	return errors.Join(ended...)
}
