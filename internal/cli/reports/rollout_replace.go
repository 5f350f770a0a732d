package reports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/rollout"
	"ephor.invalid/ephor/internal/source"
)

// replacement are the flags of rollout that replace a policy by others.
type replacement struct {
	pair string
	days int
	swap bool
}

func (r *replacement) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.pair, "replace", "", "OLD=FILE: run the policies in FILE in Audit beside the policy OLD, show where their results differ, and with --swap replace OLD by them")
	f.IntVar(&r.days, "days", 7, "with --replace: how many days the policies have to run beside each other before they are swapped")
	f.BoolVar(&r.swap, "swap", false, "with --replace: when there is no difference, let the new policies do what they say, and delete the old one after they are ready")
}

// besideAnnotation names the policy beside which a policy runs.
const besideAnnotation = names.Domain + "beside"

// readyWithin bounds the wait for a policy to be ready.
const readyWithin = 2 * time.Minute

// beside is a policy that is to replace another one.
type beside struct {
	wanted  *unstructured.Unstructured // as in the file
	kind    *family.Kind
	program *policy.Program
	stored  *unstructured.Unstructured // as in the cluster; nil if it is not there
}

func (b *beside) String() string { return b.wanted.GetKind() + " " + b.program.Key() }

// audits reports whether the policy can audit: others change objects.
func (b *beside) audits() bool {
	_, ok, _ := unstructured.NestedSlice(b.wanted.Object, "spec", "validationActions")
	return ok
}

// auditing returns the policy as it runs beside the old one.
func (b *beside) auditing(old string) *unstructured.Unstructured {
	out := b.wanted.DeepCopy()
	_ = unstructured.SetNestedSlice(out.Object, []any{"Audit"}, "spec", "validationActions") // spec is an object: audits
	annotations := out.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[besideAnnotation] = old
	out.SetAnnotations(annotations)
	return out
}

// since returns the time of the last change of the policy's spec in the cluster.
func (b *beside) since() time.Time {
	at := b.stored.GetCreationTimestamp().Time
	for _, m := range b.stored.GetManagedFields() {
		if m.Subresource == "" && m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}

// ready reports whether the status says that the policy, as it is now, is in force.
func (b *beside) ready() bool {
	ready, _, _ := unstructured.NestedBool(b.stored.Object, append([]string{"status"}, celpolicy.ReadyPath...)...)
	return ready
}

// replacing is the work of one run.
type replacing struct {
	*replacement
	old    string
	all    []*beside
	client dynamic.Interface
	now    func() time.Time
}

// newReplacing reads the policies of the file.
func newReplacing(r *replacement) (*replacing, error) {
	old, file, ok := strings.Cut(r.pair, "=")
	if !ok || old == "" || file == "" {
		return nil, fmt.Errorf("--replace: %q is not OLD=FILE, such as require-team=require-team-cel.yaml", r.pair)
	}
	if r.days < 0 {
		return nil, errors.New("--days must not be negative")
	}
	objects, diags := source.Load([]string{file}, source.Options{Numbers: source.Exact})
	if diags.HasErrors() {
		return nil, terminal.Mistaken("failed to read the new policies", diags)
	}
	out := &replacing{replacement: r, old: old, now: time.Now}
	for _, o := range objects {
		program, found := compile.One(compile.Object{Value: o.Value, Pos: o.Pos})
		if found.HasErrors() {
			return nil, terminal.Mistaken("a new policy has a mistake", found)
		}
		i := slices.IndexFunc(compile.Kinds, func(k *family.Kind) bool { return k.Kind == program.Kind && !k.Superseded && !k.Foreign })
		if i < 0 {
			return nil, fmt.Errorf("%s: %s %s is not a policy in CEL of the group policies.kyverno.io; ephor convert writes them", file, program.Kind, program.Name)
		}
		b := &beside{wanted: &unstructured.Unstructured{Object: o.Value}, kind: compile.Kinds[i], program: program}
		if slices.ContainsFunc(program.Rules, func(r *policy.Rule) bool { return r.Stage.Has(policy.StageGenerate | policy.StageDelete) }) {
			return nil, fmt.Errorf("%s: %s generates or deletes objects, and those of the old policy belong to it: create it, and delete the old one by hand (docs/policies/converting.md)", file, b)
		}
		out.all = append(out.all, b)
	}
	if len(out.all) == 0 {
		return nil, fmt.Errorf("%s: there is no policy", file)
	}
	return out, nil
}

// gvr returns the resource of a new policy in the version in which the file has it, since the API server accepts no other version for it.
func (b *beside) gvr() schema.GroupVersionResource {
	gvr := b.kind.GVR()
	gvr.Version = b.wanted.GroupVersionKind().Version
	return gvr
}

func (r *replacing) resource(b *beside) dynamic.ResourceInterface {
	return r.client.Resource(b.gvr()).Namespace(b.program.Namespace)
}

// read reads the new policies of the cluster.
func (r *replacing) read(ctx context.Context) error {
	for _, b := range r.all {
		stored, err := r.resource(b).Get(ctx, b.program.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			b.stored = nil
		case err != nil:
			return fmt.Errorf("read %s: %w", b, err)
		case b.audits() && stored.GetAnnotations()[besideAnnotation] != r.old:
			return fmt.Errorf("%s is in the cluster already, and does not run beside %s: delete it, or give the new policy another name", b, r.old)
		default:
			b.stored = stored
		}
	}
	return nil
}

// begin creates the policies that are not yet in the cluster, and updates those that the file has otherwise. It reports whether it changed any.
func (r *replacing) begin(ctx context.Context, w io.Writer) (changed bool, err error) {
	for _, b := range r.all {
		if !b.audits() {
			continue
		}
		want := b.auditing(r.old)
		switch {
		case b.stored == nil:
			_, err = r.resource(b).Create(ctx, want, metav1.CreateOptions{FieldManager: "ephor-rollout"})
		case !reflect.DeepEqual(specified(b.stored.Object["spec"], want.Object["spec"]), want.Object["spec"]):
			want.SetResourceVersion(b.stored.GetResourceVersion())
			_, err = r.resource(b).Update(ctx, want, metav1.UpdateOptions{FieldManager: "ephor-rollout"})
		default:
			continue
		}
		if err != nil {
			return changed, fmt.Errorf("write %s: %w", b, err)
		}
		changed = true
		fmt.Fprintf(w, "%s runs beside %s in Audit from now on\n", b, r.old)
	}
	return changed, nil
}

// specified returns the part of a stored value that a wanted one names: the API server adds defaults.
func specified(stored, want any) any {
	switch w := want.(type) {
	case map[string]any:
		s, _ := stored.(map[string]any)
		out := map[string]any{}
		for k, v := range w {
			if have, ok := s[k]; ok {
				out[k] = specified(have, v)
			}
		}
		return out
	case []any:
		s, _ := stored.([]any)
		if len(s) != len(w) {
			return stored
		}
		out := make([]any, len(s))
		for i := range s {
			out[i] = specified(s[i], w[i])
		}
		return out
	}
	return stored
}

// exchange lets the new policies do what the file says, waits until all of them are ready, and then deletes the old policy.
func (r *replacing) exchange(ctx context.Context, w io.Writer, old *unstructured.Unstructured, delete func(context.Context, metav1.DeleteOptions) error) error {
	for _, b := range r.all {
		var err error
		if want := b.wanted.DeepCopy(); b.stored == nil {
			b.stored, err = r.resource(b).Create(ctx, want, metav1.CreateOptions{FieldManager: "ephor-rollout"})
		} else {
			want.SetResourceVersion(b.stored.GetResourceVersion())
			b.stored, err = r.resource(b).Update(ctx, want, metav1.UpdateOptions{FieldManager: "ephor-rollout"})
		}
		if err != nil {
			return fmt.Errorf("write %s: %w; %s is still in force", b, err, r.old)
		}
		fmt.Fprintf(w, "%s does what it says\n", b)
	}
	for _, b := range r.all {
		err := wait.PollUntilContextTimeout(ctx, time.Second, readyWithin, true, func(ctx context.Context) (bool, error) {
			stored, err := r.resource(b).Get(ctx, b.program.Name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			b.stored = stored
			return b.ready(), nil
		})
		if err != nil {
			return fmt.Errorf("wait until %s is ready: %w; %s is still in force, too", b, err, r.old)
		}
	}
	uid, version := old.GetUID(), old.GetResourceVersion()
	if err := delete(ctx, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}); err != nil {
		return fmt.Errorf("delete %s: %w; the new policies are in force, too", r.old, err)
	}
	fmt.Fprintf(w, "%s is deleted: the new policies were ready before\n", r.old)
	return nil
}

// run makes one step of a replacement: it starts the new policies, or shows what they have found, or swaps.
func (r *replacement) run(cmd *cobra.Command, o *rolloutOptions) error {
	work, err := newReplacing(r)
	if err != nil {
		return err
	}
	o.policy = work.old
	if err := o.check(); err != nil {
		return err
	}
	ctx := cmd.Context()
	at, err := o.open(ctx)
	if err != nil {
		return err
	}
	work.client = at.Dynamic
	if err := work.read(ctx); err != nil {
		return err
	}
	out := terminal.Buffered(cmd.OutOrStdout())
	changed, err := work.begin(ctx, out)
	if err != nil {
		return errors.Join(err, out.Flush())
	}
	if changed {
		fmt.Fprintf(out, "run the same command again to see where the results differ; after %d days without a difference, --swap replaces %s\n", r.days, work.old)
		if err := out.Flush(); err != nil {
			return err
		}
		return terminal.End(cmd, noExit)
	}
	trial, err := work.compare(cmd, o, at, out)
	if err != nil {
		return errors.Join(err, out.Flush())
	}
	blockers := trial.Blockers()
	switch {
	case len(blockers) > 0:
		fmt.Fprintln(out, "\nNot ready to be swapped:")
		for _, b := range blockers {
			fmt.Fprintln(out, "- "+terminal.Plain(b))
		}
	case r.swap:
		kind := at.object.GroupVersionKind()
		i := slices.IndexFunc(compile.Kinds, func(k *family.Kind) bool { return k.Kind == kind.Kind && k.Group == kind.Group })
		if i < 0 {
			return fmt.Errorf("the kind %s is not known", kind.Kind)
		}
		api := at.Dynamic.Resource(compile.Kinds[i].GVR()).Namespace(at.object.GetNamespace())
		err = work.exchange(ctx, out, at.object, func(ctx context.Context, how metav1.DeleteOptions) error {
			return api.Delete(ctx, at.object.GetName(), how)
		})
	default:
		fmt.Fprintf(out, "\nReady: --swap lets the new policies do what they say, and then deletes %s.\n", work.old)
	}
	if err := errors.Join(err, out.Flush()); err != nil {
		return err
	}
	switch {
	case trial.Unread:
		return terminal.End(cmd, 1)
	case len(blockers) > 0:
		return terminal.End(cmd, noExit)
	}
	return nil
}

// compare compares the results of the policies in reports and for recorded requests, and prints the differences.
func (r *replacing) compare(cmd *cobra.Command, o *rolloutOptions, at *rolloutCluster, w io.Writer) (rollout.Trial, error) {
	trial := rollout.Trial{Now: r.now(), Days: r.days}
	reports := &rollout.Replacement{Old: at.program}
	for _, b := range r.all {
		reports.New = append(reports.New, b.program)
		if !b.audits() {
			trial.Changes = true
			continue
		}
		trial.Audits = true
		if since := b.since(); since.After(trial.Since) {
			trial.Since = since
		}
		if !b.ready() {
			trial.NotReady = append(trial.NotReady, b.String())
		}
	}
	ctx := cmd.Context()
	diags, err := o.from.readCluster(ctx, at.Cluster, reports.Add)
	if err != nil {
		return trial, err
	}
	trial.Unread = diags.HasErrors()
	trial.Old, trial.New = reports.Resources()
	fmt.Fprintf(w, "Policy %s and %s\n", terminal.Plain(r.old), terminal.Counted(len(r.all), "policy that is to replace it", "policies that are to replace it"))
	rows := [][]string{{"RESOURCE", "OLD", "NEW"}}
	unlike := reports.Differences()
	if trial.New > 0 || !trial.Audits {
		trial.Unlike = len(unlike)
		for _, u := range unlike[:min(len(unlike), o.limit)] {
			rows = append(rows, []string{u.Resource.String(), u.Old, u.New})
		}
	}
	fmt.Fprintf(w, "reports: %s with a result of the old policy, %d of the new ones, %d different\n", terminal.Counted(trial.Old, "resource", "resources"), trial.New, trial.Unlike)
	if o.decisions.Given() {
		counted := impact.Comparison{Keep: o.limit}
		if err := o.decisions.Compare(ctx, true, terminal.Stdin(cmd.InOrStdin()), []*policy.Program{at.program}, reports.New, counted.Add); err != nil {
			return trial, err
		}
		trial.Requests = counted.Matched
		trial.Unlike += counted.Different
		for _, d := range counted.First {
			rows = append(rows, []string{d.String(), d.Before, d.After})
		}
		fmt.Fprintf(w, "recorded requests: %d compared, %d of them matched, %d different\n", counted.Requests, counted.Matched, counted.Different)
		for _, why := range counted.Reasons() {
			fmt.Fprintf(w, "  not compared: %s (%s)\n", terminal.Counted(counted.Unknown[why], "record", "records"), terminal.Plain(why))
		}
	}
	if len(rows) > 1 {
		fmt.Fprintln(w)
		if err := columns(w, rows); err != nil {
			return trial, err
		}
	}
	terminal.PrintMistakes(cmd.ErrOrStderr(), diags)
	return trial, nil
}
