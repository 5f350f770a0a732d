package observe

// Label sets that several instruments share.
var (
	ruleLabels = []string{"policy_validation_mode", "policy_type", "policy_background_mode", "policy_namespace?", "policy_name?",
		"resource_kind?", "resource_namespace?", "resource_request_operation", "rule_name?", "rule_result", "rule_type",
		"rule_execution_cause", "dry_run"}
	// kindLabels are the labels of metrics for single kinds of policies. modeLabel and backgroundLabel come before them.
	kindLabels = []string{"policy_name?", "policy_namespace?",
		"resource_kind?", "resource_namespace?", "resource_request_operation", "execution_cause", "result"}
	reviewLabels   = []string{"resource_kind?", "resource_namespace?", "resource_request_operation", "request_allowed", "request_webhook"}
	httpLabels     = []string{"http_request_method", "http_response_status_code", "network_protocol_name", "network_protocol_version", "server_address?", "url_scheme"}
	deletionLabels = []string{"policy_type", "policy_namespace?", "policy_name?", "resource_kind?", "resource_namespace?", "deletion_propagation"}
	deletingLabels = []string{"policy_type", "policy_namespace?", "policy_name?", "resource?", "resource_namespace?", "deletion_propagation"}
	ttlLabels      = []string{"resource_namespace?", "resource_group?", "resource_version?", "resource_resource?"}
)

// Labels that only some of the metrics for single kinds have.
const (
	modeLabel       = "policy_validation_mode"
	backgroundLabel = "policy_background_mode"
)

// httpScope is the instrumentation scope of the HTTP server's metrics, as in Kyverno.
const httpScope = "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

// scopeVersions are the versions of other scopes, as in Kyverno.
var scopeVersions = map[string]string{httpScope: "0.69.0"}

// Names of the instruments.
const (
	nameInfo                  = "kyverno_info"
	nameRuleInfo              = "kyverno_policy_rule_info_total"
	nameChanges               = "kyverno_policy_changes"
	nameResults               = "kyverno_policy_results"
	nameExecution             = "kyverno_policy_execution_duration_seconds"
	nameReviews               = "kyverno_admission_requests"
	nameReviewDuration        = "kyverno_admission_review_duration_seconds"
	nameHTTP                  = "kyverno_http_requests"
	nameHTTPDuration          = "kyverno_http_requests_duration_seconds"
	nameServerDuration        = "http_server_request_duration"
	nameServerIn              = "http_server_request_body_size"
	nameServerOut             = "http_server_response_body_size"
	nameQueries               = "kyverno_client_queries"
	nameReconcile             = "kyverno_controller_reconcile"
	nameRequeue               = "kyverno_controller_requeue"
	nameDrop                  = "kyverno_controller_drop"
	nameEventsDropped         = "kyverno_events_dropped"
	nameBreaker               = "kyverno_breaker_total"
	nameBreakerDrops          = "kyverno_breaker_drops"
	nameUpdateRequests        = "kyverno_updaterequest_total"
	nameDeprecated            = "kyverno_deprecated_api_requests_total"
	nameCleanupDeleted        = "kyverno_cleanup_controller_deletedobjects"
	nameCleanupErrors         = "kyverno_cleanup_controller_errors"
	nameDeletingDeleted       = "kyverno_deleting_controller_deletedobjects"
	nameDeletingErrors        = "kyverno_deleting_controller_errors"
	nameTTLInfo               = "kyverno_ttl_controller_info"
	nameTTLDeleted            = "kyverno_ttl_controller_deletedobjects"
	nameTTLErrors             = "kyverno_ttl_controller_errors"
	nameCertificate           = "ephor_certificate_expiry_timestamp_seconds"
	nameAuditsDropped         = "ephor_audits_dropped"
	nameDecisions             = "ephor_decisions_recorded"
	nameDecisionsDropped      = "ephor_decisions_dropped"
	nameUpdateRequestsFailed  = "ephor_updaterequest_writes_failed"
	nameUpdateRequestsWaiting = "ephor_updaterequest_backlog"
	nameCleanupStopped        = "ephor_cleanup_runs_stopped"
	nameTTLStopped            = "ephor_ttl_rounds_stopped"
	nameReportsUnsent         = "ephor_reports_unsent"
	nameReportsUnproved       = "ephor_reports_unproved"
	nameReportsUnlistable     = "ephor_reports_unlistable_kinds"
	nameRingMembers           = "ephor_ring_members"
	nameLeftOut               = "ephor_webhook_policies_left_out"
	nameBudgetExceeded        = "ephor_policy_budget_exceeded"
	nameExceptionErrors       = "ephor_policy_exception_errors"
	nameExceptions            = "ephor_policy_exceptions"
	namePaths                 = "ephor_webhook_path_requests"
	nameTrustFetched          = "ephor_trust_root_updated_timestamp_seconds"
	nameTrustFailures         = "ephor_trust_root_failures"
	nameOverflow              = "ephor_metric_overflow"
	nameRegistryRequests      = "ephor_registry_requests"
	nameRegistryDuration      = "ephor_registry_request_duration_seconds"
	nameImageAnswers          = "ephor_image_signature_answers"
)

// declared is the table of all instruments except those for single kinds of policies (resultInstruments). Names and labels are those of
// Kyverno; instruments with Ours set do not exist there.
var declared = []Instrument{
	{Name: nameInfo, Kind: Gauge, Labels: []string{"version"},
		Help: "always 1; the label says which version runs", Query: `count by (version) (kyverno_info)`},
	{Name: nameRuleInfo, Kind: Gauge, Labels: []string{"policy_validation_mode", "policy_type", "policy_background_mode", "policy_namespace?", "policy_name?", "rule_name?", "rule_type", "status_ready"},
		Help: "1 for each rule of each policy in force, including rules generated for pod controllers", Query: `count by (rule_type, status_ready) (kyverno_policy_rule_info_total)`},
	{Name: nameChanges, Kind: Counter, Labels: []string{"policy_validation_mode", "policy_type", "policy_background_mode", "policy_namespace?", "policy_name?", "policy_change_type"},
		Help: "creations, updates and deletions of policies that the process observed", Query: `sum by (policy_change_type) (increase(kyverno_policy_changes_total[1h]))`},
	{Name: nameResults, Kind: Counter, Bare: true, Labels: ruleLabels,
		Help: "results of rules, one for each rule and request or scanned object", Query: `sum by (policy_name, rule_result) (rate(kyverno_policy_results_total[5m]))`},
	{Name: nameExecution, Kind: Histogram, Labels: ruleLabels,
		Help: "duration in seconds of the evaluation of a rule for one request or scanned object", Query: `histogram_quantile(0.95, sum by (le, policy_name) (rate(kyverno_policy_execution_duration_seconds_bucket[5m])))`},
	{Name: nameReviews, Kind: Counter, Labels: reviewLabels,
		Help: "answered admission reviews", Query: `sum by (request_webhook, request_allowed) (rate(kyverno_admission_requests_total[5m]))`},
	{Name: nameReviewDuration, Kind: Histogram, Labels: reviewLabels,
		Help: "duration in seconds of the evaluation of an admission review, all policies together", Query: `histogram_quantile(0.99, sum by (le) (rate(kyverno_admission_review_duration_seconds_bucket[5m])))`},
	{Name: nameHTTP, Kind: Counter, Labels: []string{"http_method", "http_url?"},
		Help: "HTTP requests by path", Query: `sum by (http_url) (rate(kyverno_http_requests_total[5m]))`},
	{Name: nameHTTPDuration, Kind: Histogram, Labels: []string{"http_method", "http_url?"},
		Help: "duration in seconds of an HTTP request, including its handler", Query: `sum(rate(kyverno_http_requests_duration_seconds_sum[5m])) / sum(rate(kyverno_http_requests_duration_seconds_count[5m]))`},
	{Name: nameServerDuration, Kind: Histogram, Scope: httpScope, Labels: httpLabels,
		Help: "duration in seconds of an HTTP request, by status code", Query: `sum by (http_response_status_code) (rate(http_server_request_duration_count[5m]))`},
	{Name: nameServerIn, Kind: Histogram, Scope: httpScope, Labels: httpLabels,
		Help: "size in bytes of the bodies of HTTP requests", Query: `sum(rate(http_server_request_body_size_sum[5m]))`},
	{Name: nameServerOut, Kind: Histogram, Scope: httpScope, Labels: httpLabels,
		Help: "size in bytes of the bodies of HTTP responses", Query: `sum(rate(http_server_response_body_size_sum[5m]))`},
	{Name: nameQueries, Kind: Counter, Labels: []string{"operation", "client_type", "resource_kind?", "resource_namespace?"},
		Help: "requests to the API server; a watch counts once, when it begins", Query: `topk(5, sum by (operation, resource_kind) (increase(kyverno_client_queries_total[1h])))`},
	{Name: nameReconcile, Kind: Counter, Labels: []string{"controller_name"},
		Help: "reconciliations of the controllers", Query: `sum by (controller_name) (increase(kyverno_controller_reconcile_total[1h]))`},
	{Name: nameRequeue, Kind: Counter, Labels: []string{"controller_name", "num_requeues"},
		Help: "reconciliations that failed and are retried; the label is the number of consecutive failures, up to 10"},
	{Name: nameDrop, Kind: Counter, Labels: []string{"controller_name"}, Help: "items that a controller gave up on"},
	{Name: nameEventsDropped, Kind: Counter, Help: "events that were not written because the queue was full", Query: `increase(kyverno_events_dropped_total[1h])`},
	{Name: nameBreaker, Kind: Counter, Labels: []string{"circuit_name"}, Help: "reports that were submitted to a circuit breaker"},
	{Name: nameBreakerDrops, Kind: Counter, Labels: []string{"circuit_name"}, Help: "reports that a circuit breaker dropped"},
	{Name: nameUpdateRequests, Kind: Gauge, Labels: []string{"resource_namespace?"}, Help: "UpdateRequests that exist"},
	{Name: nameDeprecated, Kind: Counter, Labels: []string{"group", "version", "kind", "field"},
		Help: "reviews of policies whose kind Kyverno has deprecated in favour of another; the label field is always empty", Query: `sum by (kind, version) (increase(kyverno_deprecated_api_requests_total[24h]))`},
	{Name: nameCleanupDeleted, Kind: Counter, Labels: deletionLabels, Help: "objects that cleanup policies deleted"},
	{Name: nameCleanupErrors, Kind: Counter, Labels: deletionLabels, Help: "objects that cleanup policies could not delete"},
	{Name: nameDeletingDeleted, Kind: Counter, Labels: deletingLabels, Help: "objects that deleting policies deleted"},
	{Name: nameDeletingErrors, Kind: Counter, Labels: deletingLabels, Help: "objects that deleting policies could not delete"},
	{Name: nameTTLInfo, Kind: Gauge, Labels: ttlLabels[1:], Help: "1 for each resource whose TTL labels are watched"},
	{Name: nameTTLDeleted, Kind: Counter, Labels: ttlLabels, Help: "objects that were deleted because of their TTL label"},
	{Name: nameTTLErrors, Kind: Counter, Labels: ttlLabels, Help: "objects that could not be deleted after their TTL expired"},
	{Name: nameCertificate, Kind: Gauge, Labels: []string{"secret"}, Ours: true,
		Help: "time at which the certificate in the Secret expires, in seconds since 1970", Query: `min by (secret) (ephor_certificate_expiry_timestamp_seconds) - time()`},
	{Name: nameTrustFetched, Kind: Gauge, Labels: []string{"source", "confined"}, Ours: true,
		Help: "time at which the trust root for images was last fetched, in seconds since 1970; for the trust root of the release, the time at which it was last compared with the public one", Query: `time() - min by (source) (ephor_trust_root_updated_timestamp_seconds)`},
	{Name: nameTrustFailures, Kind: Gauge, Labels: []string{"source", "confined"}, Ours: true,
		Help: "consecutive failed updates of the trust root for images", Query: `max by (source) (ephor_trust_root_failures)`},
	{Name: nameAuditsDropped, Kind: Counter, Ours: true,
		Help: "admitted requests whose audit rules were not evaluated because the queue was full", Query: `increase(ephor_audits_dropped_total[1h])`},
	{Name: nameDecisions, Kind: Counter, Labels: []string{"verdict"}, Ours: true,
		Help: "stored records of reviews, by verdict", Query: `sum by (verdict) (increase(ephor_decisions_recorded_total[1h]))`},
	{Name: nameDecisionsDropped, Kind: Counter, Ours: true,
		Help: "records of reviews that were lost because the queue was full or the store failed", Query: `increase(ephor_decisions_dropped_total[1h])`},
	{Name: nameUpdateRequestsFailed, Kind: Counter, Ours: true,
		Help: "UpdateRequests that could not be written before the response and are retried", Query: `increase(ephor_updaterequest_writes_failed_total[1h])`},
	{Name: nameUpdateRequestsWaiting, Kind: Gauge, Ours: true,
		Help: "admission: UpdateRequests that wait to be written; background: rules whose work for existing or changed objects waits for updateRequestThreshold", Query: `ephor_updaterequest_backlog`},
	{Name: nameCleanupStopped, Kind: Counter, Labels: []string{"policy_type", "policy_namespace?", "policy_name?"}, Ours: true,
		Help: "runs of cleanup policies that deleted nothing because they would have exceeded --maxDeletionsPerRun"},
	{Name: nameTTLStopped, Kind: Counter, Labels: ttlLabels[1:], Ours: true,
		Help: "rounds of TTL deletion that deleted nothing because the TTL of more than --maxDeletionsPerRun objects had expired"},
	{Name: nameReportsUnsent, Kind: Counter, Labels: []string{"reason"}, Ours: true,
		Help: "resources whose results were not sent to the reports controller, by reason: no reports controller (none has merged results for five minutes), queue full, not written", Query: `sum by (reason) (increase(ephor_reports_unsent_total[1h]))`},
	{Name: nameReportsUnproved, Kind: Counter, Labels: []string{"reason"}, Ours: true,
		Help: "intermediate reports that are not proved to come unchanged from a controller of Ephor; their results are dropped; by reason: no seal, unknown key, forged, replayed", Query: `sum by (reason) (increase(ephor_reports_unproved_total[1h]))`},
	{Name: nameReportsUnlistable, Kind: Gauge, Labels: []string{"kind"}, Ours: true,
		Help: "1 for each kind that policies name but the reports controller may not list; reports do not cover it", Query: `ephor_reports_unlistable_kinds`},
	{Name: nameRingMembers, Kind: Gauge, Labels: []string{"controller_name"}, Ours: true,
		Help: "replicas that share the work of the controller, as seen by this replica; 0 while it may not work itself"},
	{Name: nameBudgetExceeded, Kind: Counter, Labels: []string{"policy_type", "policy_namespace?", "policy_name?"}, Ours: true,
		Help: "evaluations that ended in an error because the policy exceeded its budget, or its namespace exceeded its share of processor time", Query: `sum by (policy_namespace, policy_name) (increase(ephor_policy_budget_exceeded_total[1h]))`},
	{Name: nameExceptions, Kind: Gauge, Labels: []string{"state"}, Ours: true,
		Help: "exceptions by state: in_force, ends_soon if the end is at most the setting's warnDays away, or pending without an approval", Query: `max by (state) (ephor_policy_exceptions)`},
	{Name: nameExceptionErrors, Kind: Counter, Labels: []string{"exception_namespace?", "exception_name?"}, Ours: true,
		Help: "evaluations of an exception that had no result, so that it exempted nothing", Query: `sum by (exception_namespace, exception_name) (increase(ephor_policy_exception_errors_total[1h]))`},
	{Name: nameLeftOut, Kind: Gauge, Labels: []string{"scope"}, Ours: true,
		Help: "policies that are not enforced on requests because the API server would reject their webhooks, or because these are too large, by scope of the policy: cluster or namespace; only the leader has it", Query: `max by (scope) (ephor_webhook_policies_left_out)`},
	{Name: namePaths, Kind: Counter, Labels: []string{"result"}, Ours: true,
		Help: "requests to webhook paths without a valid secret segment, by result: plain (answered, since a webhook configuration contains the path without a segment), missing and unknown (not answered), unserved (admitted with a warning, since no policies are evaluated at this path)", Query: `sum by (result) (increase(ephor_webhook_path_requests_total[1h]))`},
	{Name: nameRegistryRequests, Kind: Counter, Labels: []string{"server_address?", "http_response_status_code"}, Ours: true,
		Help: "requests to image registries and to the storage behind them, by status code; none if there was no response", Query: `sum by (server_address, http_response_status_code) (rate(ephor_registry_requests_total[5m]))`},
	{Name: nameRegistryDuration, Kind: Histogram, Labels: []string{"server_address?"}, Ours: true,
		Help: "duration in seconds until a registry responded", Query: `histogram_quantile(0.95, sum by (le, server_address) (rate(ephor_registry_request_duration_seconds_bucket[5m])))`},
	{Name: nameImageAnswers, Kind: Counter, Labels: []string{"source"}, Ours: true,
		Help: "lookups of the signatures of a digest, by the source of the result: memory, or a verification", Query: `sum by (source) (rate(ephor_image_signature_answers_total[5m]))`},
	{Name: nameOverflow, Kind: Counter, Labels: []string{"metric"}, Ours: true,
		Help: "observations that were counted under the label other because the metric has too many series"},
}
