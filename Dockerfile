# The service, and nothing else: a static binary from scratch, as a user without
# rights. docker build .
# The target `demo` is the application of docker-compose.yml, `keys` makes its keys.

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
ENV CGO_ENABLED=0
RUN go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/leasesvc ./cmd/leasesvc
RUN go build -trimpath -ldflags "-s -w" -o /out/demo ./deploy/demo
RUN go build -trimpath -o /out/nk github.com/nats-io/nkeys/nk
# What an image from scratch lacks: who the user is, and a place for the state.
RUN mkdir -p /out/etc /out/state \
 && echo 'leasesvc:x:65532:65532:leasesvc:/var/lib/leasesvc:/sbin/nologin' >/out/etc/passwd \
 && echo 'leasesvc:x:65532:' >/out/etc/group

FROM alpine:3.22 AS keys
COPY --from=build /out/nk /usr/local/bin/nk
COPY deploy/keys.sh /usr/local/bin/keys.sh
ENTRYPOINT ["/bin/sh", "/usr/local/bin/keys.sh"]

FROM scratch AS demo
COPY --from=build /out/etc/ /etc/
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/demo /usr/local/bin/demo
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/demo"]

FROM scratch AS leasesvc
COPY --from=build /out/etc/ /etc/
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
# A volume mounted here begins with this directory's owner.
COPY --from=build --chown=65532:65532 /out/state /var/lib/leasesvc
COPY --from=build /out/leasesvc /usr/local/bin/leasesvc
ENV PATH=/usr/local/bin HOME=/var/lib/leasesvc
USER 65532:65532
VOLUME /var/lib/leasesvc
EXPOSE 8250
ENTRYPOINT ["/usr/local/bin/leasesvc"]
CMD ["serve", "--config", "/etc/leasesvc/leasesvc.yaml"]
