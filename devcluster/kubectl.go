package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/annotate"
	"k8s.io/kubectl/pkg/cmd/apply"
	"k8s.io/kubectl/pkg/cmd/create"
	"k8s.io/kubectl/pkg/cmd/delete"
	"k8s.io/kubectl/pkg/cmd/get"
	"k8s.io/kubectl/pkg/cmd/label"
	"k8s.io/kubectl/pkg/cmd/patch"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/cmd/wait"
	"k8s.io/kubectl/pkg/validation"
)

// serveKubectl runs the kubectl commands of standard input, one after the other, and writes what they print and their exit codes to standard
// output, until standard input ends. Both are JSON; internal/devcluster has the same types.
//
// A process takes much longer to begin than most commands take: with it, tests that wait for an object use their time to ask for it.
func serveKubectl() error {
	requests, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	kubectlutil.BehaviorOnFatal(func(text string, code int) { panic(ended{text, code}) })
	for {
		var r struct {
			Args  []string `json:"args"`
			Stdin []byte   `json:"stdin"`
		}
		if err := requests.Decode(&r); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		var a struct {
			Stdout []byte `json:"stdout"`
			Stderr []byte `json:"stderr"`
			Code   int    `json:"code"`
		}
		var err error
		if a.Stdout, a.Stderr, a.Code, err = runKubectl(r.Stdin, r.Args); err != nil {
			return err
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

// ended is the panic that ends a command which would end its process.
type ended struct {
	text string
	code int
}

// runKubectl runs one command. The standard files of the process are the command's meanwhile, since code of kubectl uses them directly.
func runKubectl(stdin []byte, args []string) (stdout, stderr []byte, code int, err error) {
	out, err := capture(&os.Stdout)
	if err != nil {
		return nil, nil, 0, err
	}
	errs, err := capture(&os.Stderr)
	if err != nil {
		return nil, nil, 0, err
	}
	in, feed, err := os.Pipe()
	if err != nil {
		return nil, nil, 0, err
	}
	before := os.Stdin
	os.Stdin = in
	defer func() { os.Stdin = before; in.Close() }() // which ends the writer of a command that did not read everything
	go func() { _, _ = feed.Write(stdin); feed.Close() }()
	code = func() (code int) {
		defer func() {
			switch e := recover().(type) {
			case nil:
			case ended:
				if e.text != "" {
					fmt.Fprintln(os.Stderr, strings.TrimSuffix(e.text, "\n"))
				}
				code = e.code
			default:
				panic(e)
			}
		}()
		cmd := command(args, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
		cmd.SetArgs(args)
		if err := cli.RunNoErrOutput(cmd); err != nil {
			kubectlutil.CheckErr(err)
		}
		return 0
	}()
	return out(), errs(), code, nil
}

// often are the commands that tests run often, by their names. The first argument is a flag of all commands, the second is the name. With the whole
// kubectl for each, with its cache of discovery in files, and with the OpenAPI schemas that it reads to learn whether the API server validates fields and how a
// kind is patched, a command takes 39 ms of CPU instead of 3 (58 times create, get, label or apply).
var often = map[string]func(kubectlutil.Factory, genericiooptions.IOStreams) *cobra.Command{
	"annotate": func(f kubectlutil.Factory, s genericiooptions.IOStreams) *cobra.Command {
		return annotate.NewCmdAnnotate("kubectl", f, s)
	},
	"apply": func(f kubectlutil.Factory, s genericiooptions.IOStreams) *cobra.Command {
		return apply.NewCmdApply("kubectl", f, s)
	},
	"create": create.NewCmdCreate,
	"delete": delete.NewCmdDelete,
	"get": func(f kubectlutil.Factory, s genericiooptions.IOStreams) *cobra.Command {
		return get.NewCmdGet("kubectl", f, s)
	},
	"label": label.NewCmdLabel,
	"patch": patch.NewCmdPatch,
	"wait":  func(f kubectlutil.Factory, s genericiooptions.IOStreams) *cobra.Command { return wait.NewCmdWait(f, s) },
}

// command returns the command of kubectl for arguments.
func command(args []string, streams genericiooptions.IOStreams) *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50)
	if len(args) < 2 || often[args[1]] == nil || slices.Contains(args, "--warnings-as-errors") { // a flag of the whole kubectl
		return kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
			Arguments: append([]string{"kubectl"}, args...), ConfigFlags: flags, IOStreams: streams,
		})
	}
	warnings := rest.NewWarningWriter(streams.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	cmd := &cobra.Command{Use: "kubectl", PersistentPreRun: func(*cobra.Command, []string) { rest.SetDefaultWarningHandler(warnings) }}
	flags.AddFlags(cmd.PersistentFlags())
	sub := often[args[1]](serverValidates{kubectlutil.NewFactory(kubectlutil.NewMatchVersionFlags(&clients{ConfigFlags: flags}))}, streams)
	if patch := sub.Flags().Lookup("openapi-patch"); patch != nil {
		_ = patch.Value.Set("false") // the types of Kubernetes are built in
	}
	cmd.AddCommand(sub)
	return cmd
}

// serverValidates lets the API server validate fields, without asking first whether it can.
type serverValidates struct{ kubectlutil.Factory }

func (serverValidates) Validator(string) (validation.Schema, error) {
	return validation.NullSchema{}, nil
}

// clients are the clients of one command. What discovery finds is kept for the next ones.
type clients struct {
	*genericclioptions.ConfigFlags
	discovery *found
}

// found is what discovery found. A command that misses a kind asks again, once, as with a cache in files.
type found struct {
	discovery.CachedDiscoveryInterface
	fresh bool
}

func (f *found) Fresh() bool { return f.fresh }

func (f *found) Invalidate() {
	f.CachedDiscoveryInterface.Invalidate()
	f.fresh = true
}

// discoveries are the clients for discovery, by API server and user.
var discoveries = map[string]discovery.CachedDiscoveryInterface{}

func (c *clients) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	if c.discovery != nil {
		return c.discovery, nil
	}
	config, err := c.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%s %s %s %s", config.Host, config.BearerToken, config.CertData, config.Impersonate.UserName)
	if discoveries[key] == nil {
		config.QPS, config.Burst = 50, 300
		client, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			return nil, err
		}
		discoveries[key] = memory.NewMemCacheClient(client)
	}
	c.discovery = &found{CachedDiscoveryInterface: discoveries[key]}
	return c.discovery, nil
}

func (c *clients) ToRESTMapper() (meta.RESTMapper, error) {
	found, err := c.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	return restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(found), found, nil), nil
}

// capture replaces a file of the process. The returned function restores it and returns what was written meanwhile.
func capture(file **os.File) (restore func() []byte, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	before := *file
	*file = w
	var text bytes.Buffer
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(&text, r) })
	return func() []byte {
		*file = before
		w.Close()
		wg.Wait()
		r.Close()
		return text.Bytes()
	}, nil
}
