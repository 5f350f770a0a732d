package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/flagset"
	"ephor.invalid/ephor/internal/lifecycle"
)

// processes are the commands.
var processes = []struct {
	name, short, long string
	run               func(context.Context, *flags, env, *base) error
	garbage           lifecycle.Garbage // bounds of the heap
}{
	{nameAdmission, "Answer the API server's admission reviews",
		"Answers admission reviews according to the policies in the cluster, and maintains certificates, webhook\n" +
			"configurations and the status of policies. Flags and environment variables have Kyverno's names; Kyverno flags that\n" +
			"have no effect here are accepted and logged.", runAdmission, lifecycle.AdmissionGarbage},
	{nameBackground, "Generate objects and change existing ones as policies require",
		"Processes the UpdateRequests that the admission controller writes, and applies generate and mutate rules to existing\n" +
			"objects. Flags and environment variables have Kyverno's names; Kyverno flags that have no effect here are accepted\n" +
			"and logged.", runBackground, lifecycle.OtherGarbage},
	{nameCleanup, "Delete objects on schedule, as cleanup policies and TTL labels say",
		"Deletes the objects that cleanup policies and the label cleanup.kyverno.io/ttl select, answers admission reviews of\n" +
			"both and, with --deadManSeconds, makes webhooks fail open while no replica answers reviews. Flags and environment\n" +
			"variables have Kyverno's names; Kyverno flags that have no effect here are accepted and logged.", runCleanup, lifecycle.OtherGarbage},
	{nameReports, "Evaluate policies on existing objects and write policy reports",
		"Evaluates the policies with background: true on the resources in the cluster, and writes a PolicyReport for each\n" +
			"resource. Flags and environment variables have Kyverno's names; Kyverno flags that have no effect here are accepted\n" +
			"and logged.", runReports, lifecycle.ReportsGarbage},
	{nameAll, "Run all controllers in one process, for small clusters and for evaluation",
		"Runs the admission, background, reports and cleanup controllers in one process, with two HTTPS servers and one\n" +
			"port for metrics. The flags of the admission controller apply to all of them; the flags that only the other\n" +
			"controllers have exist, too.", nil, lifecycle.OtherGarbage},
}

// controllerName is the command above all controllers.
const controllerName = "controller"

// NewControllerCommand returns `controller`, whose subcommands are the long-running processes. programVersion is the version that they
// report.
func NewControllerCommand(programVersion string) *cobra.Command {
	version = programVersion
	cmd := &cobra.Command{
		Use:   controllerName,
		Short: "Run one of the controllers in a cluster",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, p := range processes {
		cmd.AddCommand(newCommand(p.name))
	}
	return cmd
}

// newCommand returns the command of one process.
func newCommand(name string) *cobra.Command {
	f := &flags{process: name}
	cmd := &cobra.Command{
		Use:          name,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			cfg, err := f.start(ctx)
			if err != nil {
				return err
			}
			return f.run(ctx, Host{Config: cfg, Lookup: os.LookupEnv, Listen: net.Listen, Log: f.log.logger()})
		},
	}
	for _, p := range processes {
		if p.name == name {
			cmd.Short, cmd.Long = p.short, p.long
		}
	}
	f.register(cmd.Flags())
	cmd.SetFlagErrorFunc(flagset.Suggest)
	cmd.SetContext(context.Background())
	return cmd
}

// start starts what belongs to the program and not to its controllers: its memory and its profiles. It returns the configuration for requests to
// the API server.
func (f *flags) start(ctx context.Context) (*rest.Config, error) {
	f.memory.tune()
	go lifecycle.ReturnMemory(ctx)
	for _, p := range processes {
		if p.name == f.process {
			go p.garbage.Bound(ctx)
		}
	}
	if err := f.profile.Serve(ctx, f.log.logger()); err != nil {
		return nil, err
	}
	return restConfig(f.kubeconfig)
}

// Host is what a process finds around it: the API server, the environment variables and the network.
type Host struct {
	Config *rest.Config
	Lookup func(name string) (string, bool)
	Listen func(network, address string) (net.Listener, error)
	Log    *slog.Logger
}

// RunOn runs a process on a host until ctx is done and it has shut down in order. The simulation runs several in one program: what tunes the
// memory of a program is left out.
func RunOn(ctx context.Context, h Host, process string, args ...string) error {
	f, fs := &flags{process: process}, pflag.NewFlagSet(process, pflag.ContinueOnError)
	f.register(fs)
	if err := fs.Parse(args); err != nil {
		return flagset.Suggest(nil, err)
	}
	if err := f.complete(fs, h.Lookup); err != nil {
		return err
	}
	return f.run(ctx, h)
}

// run runs the controllers of the process until ctx is done, or one of them ends.
func (f *flags) run(ctx context.Context, h Host) error {
	e := environment(h.Lookup)
	b, err := f.connect(ctx, e, h)
	if err != nil {
		return err
	}
	defer b.observing.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make([]error, len(processes))
	var running sync.WaitGroup
	running.Go(func() { controller.RunRows(ctx, b.rows(), b.log, b.observing.Rows()) })
	for i, p := range processes {
		if p.run != nil && f.runs(p.name) {
			running.Go(func() {
				defer stop()
				ended[i] = p.run(ctx, f, e, b)
			})
		}
	}
	running.Wait()
	return errors.Join(ended...)
}
