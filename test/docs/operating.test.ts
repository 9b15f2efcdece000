import { describe, expect, it } from '@jest/globals'
import { variableNames } from '../../servers/config/env-schema.js'
import {
  findMisspellings,
  readEnv,
  readUnusedVariables,
  serverPorts,
  type ServerName
} from '../../servers/config/read-env.js'
import { readDocument } from '../support/documents.js'

const names = Object.keys(serverPorts) as ServerName[]
const pages = ['servers/DEPLOY.md', 'servers/docker/README.md'].map(readDocument)
const blocks = pages.flatMap((page) => page.blocks)
const blockWith = (part: string): string => blocks.find(({ code }) => code.includes(part))!.code

describe('the blocks that operators copy', () => {
  it('have an environment that every server accepts', () => {
    const lines = blockWith('AUTH_SERVICE_URL').trim().split('\n')
    const env = Object.fromEntries(lines.map((line) => line.split('=') as [string, string]))
    const read = names.map((name) => readEnv(env, name, true))
    expect(read.map(({ SERVICE_URL }) => SERVICE_URL)).toEqual(names.map((name) => `https://${name}.example.com`))
    expect(read.map(({ TRUST_PROXY, PAGE }) => [TRUST_PROXY, PAGE])).toEqual(names.map(() => [1, false]))
    expect([...readUnusedVariables(env, names, true), ...findMisspellings(env)]).toEqual([])
  })

  it('name variables that exist', () => {
    const all = pages.map(({ text }) => text).join('\n')
    const named = [...all.matchAll(/\b((?:[A-Z]+_)+[A-Z]+)\b/g)].map(([, name]) => name!)
    const bare = named.map((name) => name.replace(/^(?:AUTH|RELAY|VAULT)_(?=SERVICE_URL)|_FILE$/, ''))
    expect(bare.length).toBeGreaterThan(10)
    expect(bare.filter((name) => !variableNames.includes(name) && !/^(?:AF_|NODE_ENV)/.test(name))).toEqual([])
  })

  /** The part of a configuration for each server: a site of Caddy or nginx, or a backend of HAProxy. */
  const sites: Readonly<Record<string, RegExp>> = {
    caddy: /^(\w+)\.example\.com \{\n([^]*?)^\}/gm,
    nginx: /^ {2}server_name (\w+)\.example\.com;\n([^]*?)^\}/gm,
    haproxy: /^backend (\w+)\n((?: .*\n)+)/gm
  }
  it.each(Object.entries(sites))('send each host to the port of its server: %s', (proxy, site) => {
    const text = blocks.map(({ language, code }) => (language === proxy ? code : '')).join('\n')
    const found = [...text.matchAll(site)].flatMap(([, name = '', body = '']) =>
      [...body.matchAll(/\d+(?:\.\d+){3}:(\d+)/g)].map(([, port]) => [name, Number(port)] as const)
    )
    const shown = proxy === 'nginx' ? { relay: serverPorts.relay } : serverPorts
    expect(Object.fromEntries(found)).toEqual(shown)
    for (const [name, port] of found) expect(port).toBe(serverPorts[name as ServerName])
  })

  it('tell the servers the address of a client, ask /ready, and give each host its backend', () => {
    const haproxy = blockWith('frontend https')
    const used = [...haproxy.matchAll(/use_backend (\w+) if \{ hdr\(host\) -i (\w+)\.example\.com \}/g)]
    expect(used.map(([, backend, host]) => [backend, host])).toEqual(names.map((name) => [name, name]))
    expect(haproxy).toMatch(
      /^ {2}option forwardfor\n[^]*^ {2}option httpchk GET \/ready\n {2}http-check expect status 200\n/m
    )
    expect(blockWith('proxy_pass')).toContain('proxy_set_header X-Forwarded-For $remote_addr;')
    expect(blockWith('lb_policy')).toContain('health_uri /ready')
  })
})
