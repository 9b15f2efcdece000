import { describe, expect, it } from '@jest/globals'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import ts from 'typescript'
import { listFragments, writeFragments } from '../support/fixtures/document-code.js'
import { readDocument, root } from '../support/fixtures/documents.js'

/** Compiles files with the strict settings of this project. Returns the faults. */
function compile(files: readonly string[], changes: ts.CompilerOptions = {}, onlyIn?: string): string[] {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), (path) => ts.sys.readFile(path)) as {
    config: object
  }
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
  const program = ts.createProgram(files, { ...options, ...changes })
  const source = onlyIn === undefined ? undefined : program.getSourceFile(onlyIn)
  return ts.getPreEmitDiagnostics(program, source).map(({ file, messageText }) => {
    return `${file?.fileName ?? ''}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`
  })
}

// The fast tests code.test.ts and guides.test.ts run the same code.
describe("the types of the documents' code", () => {
  const fragments = listFragments('.cache/documents-types')

  it('fit those of the library', () => {
    writeFragments(fragments)
    // Packages without their own types are declared next to the code that uses them.
    const declarations = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.d.ts'))
      .map((name) => join(root, 'src', name))
    expect(compile([...fragments.map(({ path }) => path), ...declarations])).toEqual([])
  })

  it("fit those of the client on the page of the coding agents' skill", () => {
    const { blocks } = readDocument('examples/skills/express-did-auth/SKILL.md')
    const file = join(dirname(fragments[0]!.path), 'skill-page.mjs')
    writeFileSync(file, blocks.find(({ language }) => language === 'js')!.code)
    const lib = ['lib.es2023.d.ts', 'lib.dom.d.ts']
    expect(compile([file], { allowJs: true, checkJs: true, noEmit: true, lib }, file)).toEqual([])
  })
})

// Each declares `req.auth` itself. `express-did-auth/types` does as well, so an application imports at most one.
describe('the types next to packages that declare `req.auth`', () => {
  const slowPackage = (path: string): string => join(root, 'test/slow/node_modules', path)
  const paths = {
    'express-did-auth': [join(root, 'src/index.ts')],
    'express-did-auth/*': [join(root, 'src/*/index.ts'), join(root, 'src/*.ts')],
    '@modelcontextprotocol/sdk/*': [slowPackage('@modelcontextprotocol/sdk/dist/esm/*')],
    '@modelcontextprotocol/node': [slowPackage('@modelcontextprotocol/node/dist/index.d.mts')],
    '@modelcontextprotocol/server': [slowPackage('@modelcontextprotocol/server/dist/index.d.mts')],
    'express-oauth2-jwt-bearer': [slowPackage('express-oauth2-jwt-bearer/dist/index.d.ts')]
  }
  const ours = `import express from 'express'
import { setupDidAuth } from 'express-did-auth'
import { requireToken, type ResourceTokenVerifier } from 'express-did-auth/verify'
import { config } from '../../test/support/fixtures/document-names.js'
declare const verify: ResourceTokenVerifier
const app = express()
app.use(setupDidAuth(app, config), requireToken(verify))
app.get('/', (req, res) => res.json(req.user?.did))
`
  const compileNextTo = (name: string, code: string): string[] => {
    const file = join(root, '.cache/neighbour-types', `${name}.ts`)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, ours + code)
    return compile([file], { paths }, file)
  }
  const oauth = `import { auth } from 'express-oauth2-jwt-bearer'
app.get('/oauth', auth(), (req, res) => res.json(req.auth?.payload.sub))
`

  it('compile with express-oauth2-jwt-bearer', () => {
    expect(compileNextTo('oauth', oauth)).toEqual([])
    expect(compileNextTo('oauth-and-types', `import type {} from 'express-did-auth/types'\n${oauth}`)).not.toEqual([])
  })

  it('compile with the middleware of version 1 of the MCP SDK, whose transport takes such a request', () => {
    const bearer = `import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js'
declare const verifier: Parameters<typeof requireBearerAuth>[0]['verifier']
app.use(requireBearerAuth({ verifier }))
`
    const transport = `import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
app.post('/mcp', (req, res) => {
  void new StreamableHTTPServerTransport().handleRequest(req, res, req.body)
})
`
    expect(compileNextTo('mcp', bearer + transport)).toEqual([])
    expect(compileNextTo('mcp-and-types', `import type {} from 'express-did-auth/types'\n${transport}`)).not.toEqual([])
  })

  it.each(['mcp-server.ts', 'mcp-server-sdk1.ts'])('compile in examples/%s', (name) => {
    const file = join(root, 'examples', name)
    expect(compile([file], { paths }, file)).toEqual([])
  })
})
