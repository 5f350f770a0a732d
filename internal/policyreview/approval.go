package policyreview

import (
	"context"
	"strings"

	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// approve reports whether the exception is approved, or stays so: the request does not change what an approval covers, or the requester may
// approve. In the latter case the approval is recorded.
func (v *Reviewer) approve(ctx context.Context, req *policy.Request, object map[string]any) bool {
	if old, err := req.OldObject.Map(); err == nil && old != nil && mark.ApprovedContent(old) == mark.ApprovedContent(object) {
		return true
	}
	user := req.User
	if user == nil || v.Root == nil {
		return false
	}
	access := v.Root.For(world.Cluster()).Access
	if access == nil {
		return false
	}
	allowed, _, err := access.Allowed(ctx, world.AccessRequest{
		Username: user.Username, UID: user.UID, Groups: user.Groups, Extra: user.Extra, Verb: "approve",
		Group: req.GVR.Group, Version: req.GVR.Version, Resource: req.GVR.Resource, Namespace: req.Namespace, Name: req.Name,
	})
	if err != nil {
		v.Log.Warn("it is not known whether the user may approve an exception", "user", user.Username, "exception", req.Namespace+"/"+req.Name, "error", err)
		return false
	}
	if allowed && !req.DryRun && v.Exceptions.Approved != nil {
		v.Exceptions.Approved(object, user.Username)
	}
	return allowed
}

// textApprovalWritten is the refusal of an approval that a user writes, such as an earlier one of the same spec.
const textApprovalWritten = "status.approval is written by the controllers only: to approve the exception, set its annotation " + family.ExceptionApprove

// exceptionStatus accepts a change of an exception's status by a controller, or one that keeps the approval or removes it.
func (v *Reviewer) exceptionStatus(req *policy.Request) Answer {
	if req.User != nil && strings.HasPrefix(req.User.Username, "system:serviceaccount:"+v.Exceptions.Controllers+":") {
		return Answer{Allowed: true}
	}
	object, err := req.Object.Map()
	if err != nil {
		return Answer{Message: "the exception cannot be read: " + err.Error()}
	}
	old, err := req.OldObject.Map()
	if err != nil {
		return Answer{Message: "the exception cannot be read: " + err.Error()}
	}
	if now := approvalIn(object); now != nil && !value.Equal(now, approvalIn(old)) {
		return Answer{Message: textApprovalWritten}
	}
	return Answer{Allowed: true}
}

func approvalIn(object map[string]any) any {
	status, _ := object["status"].(map[string]any)
	return status["approval"]
}
