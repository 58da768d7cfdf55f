package diag

// NotPassedOn describes what a node's request lacked when it reached the platform, by the error code of the refusal.
// The edge that terminates the node's TLS adds the client certificate and a secret of its own to each request. The
// result is "" for any other code. The codes are the reference platform's; other platforms do not use them.
func NotPassedOn(code string) string {
	switch code {
	case "client_certificate_required":
		return "the platform behind it saw no certificate"
	case "ingress_required":
		return "the platform behind it does not recognize the request as its ingress's"
	}
	return ""
}
