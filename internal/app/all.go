package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/flagset"
)

// allFlags are the flags of the process that runs all controllers: the flags of admission, which apply to all controllers, and the flags
// that only one of the others has.
type allFlags struct {
	admission  admissionFlags
	background backgroundFlags
	reports    reportsFlags
	cleanup    cleanupFlags
	service    string // the Service of the cleanup controller
	without    []string
}

// optionalControllers are the controllers that the process can run without.
var optionalControllers = []string{"background", "reports", "cleanup"}

func (f *allFlags) register(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.without, "without", nil, "controllers to leave out: "+strings.Join(optionalControllers, ", "))
	fs.StringVar(&f.service, "cleanupService", "kyverno-cleanup-controller", "Service of the cleanup controller; KYVERNO_SVC names that of the admission controller")
	fs.StringVar(&f.cleanup.CASecret, "cleanupCASecretName", "", "Secret that holds the cleanup controller's certificate authority (required)")
	fs.StringVar(&f.cleanup.TLSSecret, "cleanupTLSSecretName", "", "Secret that holds the cleanup controller's serving certificate (required)")
	fs.StringVar(&f.cleanup.host, "cleanupServerHost", "", "address on which the cleanup controller's server listens; empty for all addresses")
	fs.IntVar(&f.cleanup.port, "cleanupServerPort", 9444, "port of the cleanup controller's server")
	fs.StringVar(&f.cleanup.ServerIP, "cleanupServerIP", "", "address at which the API server reaches the cleanup controller's server; used together with --serverIP")
	fs.IntVar(&f.cleanup.deadManSeconds, "deadManSeconds", 0, "not available: requires that `controller cleanup` runs as a separate process")
	f.cleanup.deletion.register(fs)
	f.background.registerOwn(fs)
	f.reports.registerOwn(fs)
	f.admission.register(fs)
	for _, process := range []string{"B", "R", "C"} {
		flagset.Accept(fs, process)
	}
}

// complete checks the flags together.
func (f *allFlags) complete(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	errs := []error{f.admission.complete(fs, lookup)}
	for _, name := range f.without {
		if !slices.Contains(optionalControllers, name) {
			errs = append(errs, fmt.Errorf("--without: %q is not one of %s", name, strings.Join(optionalControllers, ", ")))
		}
	}
	if f.runs("cleanup") && (f.cleanup.CASecret == "" || f.cleanup.TLSSecret == "") {
		errs = append(errs, errors.New("--cleanupCASecretName and --cleanupTLSSecretName are required"))
	}
	if f.runs("cleanup") && (f.admission.ServerIP == "") != (f.cleanup.ServerIP == "") {
		errs = append(errs, errors.New("--serverIP and --cleanupServerIP go together: there are two servers"))
	}
	if f.cleanup.deadManSeconds != 0 {
		errs = append(errs, errors.New("--deadManSeconds: the process that detects the loss of admission may not be the admission controller itself; run `controller cleanup` in a separate process"))
	}
	shared := f.admission.evaluatorFlags
	f.background.evaluatorFlags, f.reports.evaluatorFlags = shared, shared
	f.reports.admissionReports = f.admission.admissionReports
	c := f.admission.Flags
	c.CASecret, c.TLSSecret, c.ServerIP = f.cleanup.CASecret, f.cleanup.TLSSecret, f.cleanup.ServerIP
	f.cleanup.Flags, f.cleanup.commonFlags, f.cleanup.events = c, shared.commonFlags, shared.events
	f.cleanup.calls, f.cleanup.globals = shared.calls, shared.globals
	errs = append(errs, f.cleanup.deletion.complete(), f.background.completeOwn(lookup), f.reports.completeOwn())
	f.cleanup.deletion.protectManaged, f.cleanup.deletion.dumpPayload = f.admission.serving.protectManaged, f.admission.serving.dumpPayload
	return errors.Join(errs...)
}

// runs reports whether a controller runs in this process.
func (f *allFlags) runs(name string) bool {
	return !slices.Contains(f.without, name)
}

// runAll runs all controllers until ctx is done or one of them ends.
func runAll(ctx context.Context, f *allFlags, e env, b *base) error {
	controllers := []func(context.Context) error{
		func(ctx context.Context) error { return runAdmission(ctx, &f.admission, e, b) },
	}
	if f.runs("background") {
		controllers = append(controllers, func(ctx context.Context) error { return runBackground(ctx, &f.background, e, b) })
	}
	if f.runs("reports") {
		controllers = append(controllers, func(ctx context.Context) error { return runReports(ctx, &f.reports, e, b) })
	}
	if f.runs("cleanup") {
		e := e
		e.service = f.service
		controllers = append(controllers, func(ctx context.Context) error { return runCleanup(ctx, &f.cleanup, e, b) })
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make([]error, len(controllers))
	var running sync.WaitGroup
	for i, run := range controllers {
		running.Go(func() {
			defer stop()
			ended[i] = run(ctx)
		})
	}
	running.Wait()
	return errors.Join(ended...)
}
