package events

// The fields of every payload, in the order of the wire, which is that of the
// struct. A field that is missing here is read and written all the same, by
// reflection, and TestGoldenNeedsNoReflection says so.

func (d *Opened) fields(f fields) {
	f.text(`"holder":`, &d.Holder, false)
	f.text(`"how":`, &d.How, false)
	f.text(`"attempt":`, &d.Attempt, false)
	f.text(`"seal_key":`, &d.SealKey, false)
	f.moment(`"stream_created":`, &d.StreamCreated)
	f.seconds(`"overlap_s":`, &d.Overlap, true)
	f.text(`"key_proof":`, &d.KeyProof, true)
	f.texts(`"found":`, &d.Found, true)
	f.texts(`"lost":`, &d.Lost, true)
}

func (d *Released) fields(f fields) {
	f.text(`"holder":`, &d.Holder, false)
	f.flag(`"shutdown":`, &d.Shutdown, true)
}

func (d *Paused) fields(f fields) {
	f.text(`"vault":`, &d.Vault, false)
	f.text(`"kind":`, &d.Kind, false)
}

func (d *Resumed) fields(f fields) { f.text(`"vault":`, &d.Vault, false) }

func (d *Format) fields(f fields) { f.versions(`"versions":`, &d.Versions) }

func (d *Requested) fields(f fields) {
	f.text(`"vault":`, &d.Vault, false)
	f.text(`"path":`, &d.Path, false)
	f.text(`"reason":`, &d.Reason, false)
	f.count(`"attempt":`, &d.Attempt)
	f.number(`"replaces":`, &d.Replaces, true)
}

func (d *Acquired) fields(f fields) {
	f.text(`"lease_id":`, &d.LeaseID, true)
	f.seconds(`"ttl_s":`, &d.TTL, false)
	f.flag(`"renewable":`, &d.Renewable, false)
	f.moment(`"sent_at":`, &d.SentAt)
	f.text(`"guard":`, &d.Guard, true)
	f.seconds(`"guard_ttl_s":`, &d.GuardTTL, true)
	f.texts(`"keys":`, &d.Keys, false)
	f.table(`"public":`, &d.Public, true)
	f.text(`"fingerprint":`, &d.Fingerprint, false)
	f.text(`"lease_duration_suspect":`, &d.Suspect, true)
	f.texts(`"warnings":`, &d.Warnings, true)
	f.seconds(`"reread_in_s":`, &d.RereadIn, true)
}

func (d *GuardExtended) fields(f fields) {
	f.seconds(`"granted_s":`, &d.Granted, false)
	f.moment(`"sent_at":`, &d.SentAt)
	f.texts(`"warnings":`, &d.Warnings, true)
}

func (d *Retry) fields(f fields) {
	f.count(`"attempt":`, &d.Attempt)
	f.moment(`"at":`, &d.At)
}

func (d *Retry) object(f fields, optional bool) {
	if f.enter(`"retry":`, *d != Retry{}, optional) {
		d.fields(f)
		f.leave()
	}
}

func (d *Failure) fields(f fields) {
	f.text(`"kind":`, &d.Kind, false)
	f.text(`"message":`, &d.Message, false)
}

func (d *AcquireFailed) fields(f fields) {
	d.Failure.fields(f)
	f.texts(`"keys":`, &d.Keys, true)
	f.text(`"lease_id":`, &d.LeaseID, true)
	f.text(`"guard":`, &d.Guard, true)
	d.Retry.object(f, false)
	f.flag(`"not_sent":`, &d.NotSent, true)
}

func (d *Verified) fields(f fields) {
	f.text(`"verifier":`, &d.Verifier, false)
	f.seconds(`"took_s":`, &d.Took, false)
}

func (d *VerifyFailed) fields(f fields) {
	d.Failure.fields(f)
	d.Retry.object(f, false)
}

func (d *HandoverStarted) fields(f fields) {
	f.number(`"previous":`, &d.Previous, true)
	f.texts(`"asked":`, &d.Asked, true)
	f.seconds(`"budget_s":`, &d.Budget, false)
	f.text(`"unasked":`, &d.Unasked, true)
}

func (d *Prepared) fields(f fields) {
	f.text(`"incarnation":`, &d.Incarnation, false)
	f.number(`"n":`, &d.N, false)
	f.flag(`"yes":`, &d.Yes, false)
	f.text(`"reason":`, &d.Reason, true)
}

func (d *Installed) fields(f fields) {
	f.number(`"previous":`, &d.Previous, true)
	f.text(`"proof":`, &d.Proof, false)
	f.seconds(`"good_for_s":`, &d.GoodFor, false)
	f.seconds(`"retire_after_s":`, &d.RetireAfter, false)
	d.Rehearsal.fields(f)
}

func (d *RollbackStarted) fields(f fields) {
	d.Failure.fields(f)
	f.number(`"back":`, &d.Back, true)
	f.seconds(`"budget_s":`, &d.Budget, false)
}

func (d *RolledBack) fields(f fields) {
	f.flag(`"safe":`, &d.Safe, false)
	f.texts(`"unconfirmed":`, &d.Unconfirmed, true)
	d.Retry.object(f, false)
}

func (d *Renewed) fields(f fields) {
	f.seconds(`"ttl_s":`, &d.TTL, false)
	f.moment(`"sent_at":`, &d.SentAt)
	f.flag(`"renewable":`, &d.Renewable, false)
	f.seconds(`"guard_ttl_s":`, &d.GuardTTL, true)
	f.flag(`"short":`, &d.Short, true)
	f.text(`"lease_duration_suspect":`, &d.Suspect, true)
	f.texts(`"warnings":`, &d.Warnings, true)
}

func (d *RenewFailed) fields(f fields) {
	d.Failure.fields(f)
	f.flag(`"refused":`, &d.Refused, true)
	d.Retry.object(f, false)
}

func (d *Retired) fields(f fields) {
	f.text(`"reason":`, &d.Reason, false)
	f.texts(`"cut_off":`, &d.CutOff, true)
}

func (d *Revoking) fields(fields) {}

func (d *Revoked) fields(f fields) {
	f.flag(`"gone":`, &d.Gone, true)
	f.flag(`"shared":`, &d.Shared, true)
}

func (d *RevokeFailed) fields(f fields) {
	d.Failure.fields(f)
	d.Retry.object(f, false)
}

func (d *Expired) fields(f fields) {
	f.text(`"by":`, &d.By, false)
	d.Retry.object(f, true)
}

func (d *Adopted) fields(f fields) {
	d.Acquired.fields(f)
	f.text(`"vault":`, &d.Vault, false)
	f.text(`"path":`, &d.Path, false)
}

func (d *Orphaned) fields(f fields) {
	f.text(`"vault":`, &d.Vault, false)
	f.text(`"path":`, &d.Path, false)
}

func (d *Changed) fields(f fields) { f.text(`"fingerprint":`, &d.Fingerprint, false) }

func (d *Registered) fields(f fields) {
	f.text(`"consumer":`, &d.Consumer, false)
	f.text(`"instance":`, &d.Instance, false)
	f.text(`"incarnation":`, &d.Incarnation, false)
	f.text(`"replaces":`, &d.Replaces, true)
	f.text(`"key":`, &d.Key, false)
	f.text(`"xkey":`, &d.XKey, false)
	f.text(`"subject":`, &d.Subject, false)
}

func (d *Left) fields(f fields) {
	f.text(`"incarnation":`, &d.Incarnation, false)
	f.text(`"reason":`, &d.Reason, false)
}

func (d *Updated) fields(f fields) {
	f.number(`"revision":`, &d.Revision, false)
	f.texts(`"paths":`, &d.Paths, false)
	f.text(`"blob":`, &d.Blob, false)
	f.number(`"definitions":`, &d.Definitions, true)
	f.text(`"fingerprint":`, &d.Fingerprint, true)
}

func (d *Rejected) fields(f fields) {
	d.Failure.fields(f)
	f.number(`"revision":`, &d.Revision, false)
}

func (d *Applied) fields(f fields) {
	f.number(`"revision":`, &d.Revision, false)
	f.text(`"digest":`, &d.Digest, true)
	if f.enter(`"definition":`, d.Definition != nil, true) {
		if d.Definition == nil {
			d.Definition = &Definition{}
		}
		d.Definition.fields(f)
		f.leave()
	}
}

func (d *Removed) fields(f fields) { f.number(`"revision":`, &d.Revision, false) }

func (d *Definition) fields(f fields) {
	f.text(`"vault":`, &d.Vault, false)
	f.text(`"path":`, &d.Path, false)
	f.text(`"kind":`, (*string)(&d.Kind), false)
	f.text(`"method":`, &d.Method, true)
	f.table(`"params":`, &d.Params, true)
	f.number(`"version":`, &d.Version, true)
	f.texts(`"require":`, &d.Require, true)
	f.seconds(`"renew_at":`, &d.RenewAt, false)
	f.seconds(`"fallback_ttl_s":`, &d.FallbackTTL, false)
	if f.enter(`"verifier":`, d.Verifier != nil, true) {
		if d.Verifier == nil {
			d.Verifier = &Verifier{}
		}
		d.Verifier.fields(f)
		f.leave()
	}
	f.consumers(`"consumers":`, &d.Consumers)
	f.number(`"width":`, &d.Width, true)
	f.seconds(`"prepare_timeout_s":`, &d.PrepareTimeout, false)
	f.seconds(`"rollback_timeout_s":`, &d.RollbackTimeout, false)
	f.seconds(`"good_for_s":`, &d.GoodFor, false)
	f.seconds(`"poll_s":`, &d.Poll, false)
	f.count(`"acquisitions_per_hour":`, &d.AcquisitionsPerHour)
	f.seconds(`"retire_after_s":`, &d.RetireAfter, false)
	f.seconds(`"leave_after_s":`, &d.LeaveAfter, false)
}

func (v *Verifier) fields(f fields) {
	f.text(`"kind":`, &v.Kind, false)
	f.text(`"dsn":`, &v.DSN, true)
	f.table(`"headers":`, &v.Headers, true)
	f.texts(`"command":`, &v.Command, true)
	f.text(`"pass":`, &v.Pass, true)
	f.seconds(`"timeout_s":`, &v.Timeout, false)
}

func (c *Consumer) fields(f fields) {
	f.text(`"name":`, &c.Name, false)
	f.text(`"key":`, &c.Key, true)
	f.flag(`"optional":`, &c.Optional, true)
}

func (a *Actor) fields(f fields) {
	f.text(`"name":`, &a.Name, true)
	f.text(`"key":`, &a.Key, true)
	f.flag(`"claimed":`, &a.Claimed, true)
}
