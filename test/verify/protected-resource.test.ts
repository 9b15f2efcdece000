import { describe, expect, it } from '@jest/globals'
import express from 'express'
import { protectedResource } from 'express-did-auth/verify'
import request from 'supertest'
import { refusal } from '../support/fixtures/refusal.js'

const authorizationServers = ['https://auth.example']
const options = { resource: 'https://mcp.example/mcp', authorizationServers }
const WELL_KNOWN = '/.well-known/oauth-protected-resource'

describe('protectedResource', () => {
  it.each([
    ['https://orders.example', `https://orders.example${WELL_KNOWN}`],
    ['https://orders.example/', `https://orders.example${WELL_KNOWN}`],
    ['https://mcp.example/mcp', `https://mcp.example${WELL_KNOWN}/mcp`],
    ['https://mcp.example:8443/a/b/', `https://mcp.example:8443${WELL_KNOWN}/a/b/`],
    ['http://localhost:3001/mcp', `http://localhost:3001${WELL_KNOWN}/mcp`]
  ])('appends the path of %s to the well-known path', (resource, url) => {
    const metadata = protectedResource({ resource, authorizationServers })
    expect(metadata.url).toBe(url)
    expect(metadata.path).toBe(new URL(url).pathname)
    expect(metadata.document.resource).toBe(resource)
  })

  it('answers the document to pages of every origin', async () => {
    const members = { resource_name: 'Notes', resource: 'https://evil.example' }
    const { handler, document, path } = protectedResource({ ...options, members })
    const answer = await request(express().use(handler)).get(`${path}?a=1`).expect(200)
    expect(answer.body).toEqual({
      resource_name: 'Notes',
      resource: 'https://mcp.example/mcp',
      authorization_servers: ['https://auth.example'],
      bearer_methods_supported: ['header']
    })
    expect(answer.body).toEqual(document)
    expect(answer.headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'access-control-allow-origin': '*',
      'cache-control': 'public, max-age=300'
    })
  })

  it('answers a preflight request and a HEAD request, with a slash at the end of the path too', async () => {
    const { handler, path } = protectedResource(options)
    const app = express().use(handler)
    const preflight = await request(app).options(path).set('Access-Control-Request-Headers', 'mcp-protocol-version')
    expect([preflight.status, preflight.headers['access-control-allow-headers']]).toEqual([204, '*'])
    await request(app).head(`${path}/`).expect(200)
  })

  it('leaves other paths and methods to the application', async () => {
    const { handler, path } = protectedResource(options)
    const app = express().use(handler)
    await request(app).post(path).expect(404)
    for (const other of [WELL_KNOWN, `${path}/other`, '/mcp']) await request(app).get(other).expect(404)
  })

  it.each<[string, object]>([
    ['no resource', { resource: undefined }],
    ['a resource without https', { resource: 'http://mcp.example' }],
    ['a resource with a query', { resource: 'https://mcp.example/?a=1' }],
    ['a resource with a fragment', { resource: 'https://mcp.example/#a' }],
    ['a resource with a user', { resource: 'https://user@mcp.example' }],
    ['no servers', { authorizationServers: [] }],
    ['a server that is no URL', { authorizationServers: ['auth.example'] }],
    ['members that are a list', { members: [] }]
  ])('refuses options with %s', (_what, changes) => {
    expect(() => protectedResource({ ...options, ...changes })).toThrow(refusal('ERR_CONFIG'))
  })
})
