package impact

import (
	"time"

	"ephor.invalid/ephor/internal/compliance"
)

// Report describes what policies would have done, as `ephor impact` prints it.
type Report struct {
	// Policies has the keys of the evaluated policies, Current the keys of the policies in force, if there are any.
	Policies []string `json:"policies"`
	Current  []string `json:"current,omitempty"`
	// Records is the number of records that were read, Requests the number of them that are requests for admission, Matched the number of
	// requests to which a rule applies.
	Records  int        `json:"records"`
	Requests int        `json:"requests"`
	Matched  int        `json:"matched"`
	From     *time.Time `json:"from,omitempty"`
	To       *time.Time `json:"to,omitempty"`
	// After has the counts for the policies, Before the counts for the policies in force with the same requests; nil without them.
	After  Counts  `json:"after"`
	Before *Counts `json:"before,omitempty"`
	// Effect is the difference between the two; nil without policies in force.
	Effect *Effect `json:"effect,omitempty"`

	Rules      []Rule    `json:"rules"`
	Namespaces []Group   `json:"namespaces"`
	Owners     []Owner   `json:"owners"`
	Users      []Group   `json:"users"`
	Examples   []Example `json:"examples"`
	Lacks      []Lack    `json:"lacks"`
	Unreadable []Mistake `json:"unreadable,omitempty"`
}

// Counts has numbers of requests. A request may count in several of them: a request that is changed may also be refused.
type Counts struct {
	Refused int `json:"refused"`
	Warned  int `json:"warned"`
	Changed int `json:"changed"`
	// Erred counts requests for which some rule ended in an error, or a webhook gave no answer.
	Erred int `json:"erred"`
	// Violating counts admitted requests for which a rule failed: Enforce would refuse them.
	Violating int `json:"violating"`
	// Exempt counts requests that an exception exempted from a rule.
	Exempt int `json:"exempt"`
}

// Effect counts the requests for which an edit of policies changes the result.
type Effect struct {
	NewlyRefused    int `json:"newlyRefused"`
	NoLongerRefused int `json:"noLongerRefused"`
	// Differing counts the requests whose answer differs in anything else: warnings, the message of a refusal, the changed object.
	Differing int `json:"differing"`
}

// Rule counts the results of one rule.
type Rule struct {
	Policy string `json:"policy"`
	Rule   string `json:"rule,omitempty"`
	Action string `json:"action"`
	Pass   int    `json:"pass"`
	Fail   int    `json:"fail"`
	Warn   int    `json:"warn"`
	Error  int    `json:"error"`
	Skip   int    `json:"skip"`
	// Refused counts the requests that the rule refused.
	Refused int `json:"refused"`
}

// Group is a namespace or a user with its requests. The name is empty for requests without a namespace or user.
type Group struct {
	Name     string `json:"name"`
	Requests int    `json:"requests"`
	Counts
	*Effect
}

// Owner is an owner whose requests were touched: refused, warned, changed, erred or violating.
type Owner struct {
	Namespace string `json:"namespace,omitempty"`
	// Owner is the end of the chain of ownerReferences, as Kind/name: the resource itself if it has no owner.
	Owner string `json:"owner"`
	// Whose is the value of the owner label; empty if no object in the chain has it.
	Whose    string `json:"whose,omitempty"`
	Requests int    `json:"requests"`
	Counts
}

// Example is a request with all its results.
type Example struct {
	// Class is the first of refused, erred, warned, changed and violating that applies to the request, or no longer refused.
	Class     string              `json:"class"`
	At        string              `json:"at"`
	UID       string              `json:"uid,omitempty"`
	Time      *time.Time          `json:"time,omitempty"`
	User      string              `json:"user,omitempty"`
	Groups    []string            `json:"groups,omitempty"`
	Operation string              `json:"operation"`
	Resource  compliance.Resource `json:"resource"`
	// Subresource is the subresource of the request; empty for the object itself.
	Subresource string   `json:"subresource,omitempty"`
	DryRun      bool     `json:"dryRun,omitempty"`
	Message     string   `json:"message,omitempty"`
	Warnings    []string `json:"warnings,omitempty"`
	Rules       []Said   `json:"rules,omitempty"`
	Changes     []Change `json:"changes,omitempty"`
	Failures    []string `json:"failures,omitempty"`
	// Before is the answer of the policies in force; nil without them.
	Before *Answer `json:"before,omitempty"`
}

// Answer is an answer to a request.
type Answer struct {
	Allowed  bool     `json:"allowed"`
	Message  string   `json:"message,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Changes  []Change `json:"changes,omitempty"`
}

// Said is a result other than a pass.
type Said struct {
	Policy     string   `json:"policy"`
	Rule       string   `json:"rule,omitempty"`
	Status     string   `json:"status"`
	Action     string   `json:"action"`
	Message    string   `json:"message,omitempty"`
	Path       string   `json:"path,omitempty"`
	Exceptions []string `json:"exceptions,omitempty"`
}

// Change is a change of an object. It does not contain the values of Secrets.
type Change struct {
	Op   string `json:"op"`
	Path string `json:"path"`
	From any    `json:"from,omitempty"`
	To   any    `json:"to,omitempty"`
}

// Lack is something unknown, with the number of affected requests.
type Lack struct {
	What     string `json:"what"`
	Requests int    `json:"requests,omitempty"`
}

// Mistake is a record that cannot be read.
type Mistake struct {
	At    string `json:"at"`
	Error string `json:"error"`
}
