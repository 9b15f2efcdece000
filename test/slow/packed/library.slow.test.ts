import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  packAll,
  root,
  runIn,
  listTree,
  useWhileRunning,
  type PackedPackage
} from '../../support/engines/packed-package.js'
import { createLoginText, createNumberedWallet } from '../../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const packageJson = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  exports: Record<string, string | Record<string, string>>
  bin: Record<string, string>
  main: string
  types: string
}

const CONSUMER = `import express from 'express'
import { DidAuthError, es256kSigner, memoryStore, setupDidAuth, type DidAuthConfig } from 'express-did-auth'
import { createDidAuth } from 'express-did-auth/fetch'
import { loginMessage, type Curve } from 'express-did-auth/protocol'
import { postgresStore } from 'express-did-auth/stores/postgres'
import { redisQuotas, redisStore } from 'express-did-auth/stores/redis'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
import { signedIn, storeContract, testConfig, wallet } from 'express-did-auth/testing'
import type {} from 'express-did-auth/types'
import { accessTokenVerifier, requireToken, toAuthInfo, type VerifiedToken } from 'express-did-auth/verify'

const config: DidAuthConfig = {
  challengeSecret: 'secret',
  serviceUrl: 'https://service.example',
  serviceDid: 'did:ethr:rsk:0x0000000000000000000000000000000000000001',
  serviceSigner: es256kSigner('01'.repeat(32)),
  signupBusinessLogic: ({ credentials }) => ({ tokenClaims: { count: credentials.length } })
}
const app = express()
const requireDid = setupDidAuth(app, config)
app.get('/profile/:id', requireDid, (req, res) => {
  const did: string | undefined = req.user?.did
  const id: string = req.params.id
  res.json({ did, id, expires: req.auth?.claims.exp, isOurs: new Error() instanceof DidAuthError })
})
// @ts-expect-error -- the middleware need not have run
export const did: string = (undefined as unknown as express.Request).user.did
export const message: string = loginMessage('service.example', 'challenge')
export const kind = (curve: Curve): 'native' | 'wasm' | 'pure' => curve.kind
export const contract = storeContract(() => memoryStore())
export const open = [sqliteStore, postgresStore, redisStore, redisQuotas]
const { serviceDid: issuer, serviceUrl: audience } = testConfig()
const verify = accessTokenVerifier({ issuer, audience })
express().get('/orders', requireToken(verify), (req, res) => res.json(req.auth?.canonicalDid))
const didAuth = createDidAuth(config)
export const handled = didAuth.fetch(new Request('https://service.example'), { clientAddress: undefined })
// @ts-expect-error -- the address of the client is required
export const forgotten = didAuth.fetch(new Request('https://service.example'), {})
export const found = async (request: Request): Promise<string> =>
  (await didAuth.authenticate(request, { clientAddress: '192.0.2.1' })).auth.canonicalDid
export const verified: Promise<VerifiedToken> = verify.request(new Request('https://service.example'))
export const clientId = (req: express.Request): string => toAuthInfo(req).clientId
export const answer = async (): Promise<Response> => (await signedIn(app, wallet('alice')))('/profile/1')
`

/** Packages that users install in addition, in current versions. */
const NEIGHBOURS = ['express@5', '@types/express@5']
const NEST = ['@nestjs/common@11', '@nestjs/core@11', '@nestjs/platform-express@11', 'reflect-metadata@0.2', 'rxjs@7']

const NEST_APP = `import 'reflect-metadata'
import { Controller, Get, Module, Req } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import type { NestExpressApplication } from '@nestjs/platform-express'
import type { Request } from 'express'
import { didOfPrivateKey, es256kSigner, setupDidAuth } from 'express-did-auth'

@Controller()
class ProfileController {
  @Get('profile')
  profile(@Req() req: Request) {
    return req.user
  }
}

@Module({ controllers: [ProfileController] })
class AppModule {}

async function main(): Promise<void> {
  const privateKey = '01'.repeat(32)
  const app = await NestFactory.create<NestExpressApplication>(AppModule, { logger: ['error'] })
  const requireDid = setupDidAuth(app.getHttpAdapter().getInstance(), {
    challengeSecret: 'secret',
    serviceUrl: 'http://localhost:3000',
    serviceDid: await didOfPrivateKey(privateKey),
    serviceSigner: es256kSigner(privateKey)
  })
  app.use('/profile', requireDid)
  await app.listen(3000)
}
void main()
`

const resolveSlowPackage = (path: string): string => join(root, 'test/slow/node_modules', path)
/** Node, and Bun and Deno as test/slow/package.json installs them on Linux x64. */
const RUNTIMES = [
  { name: 'Node', command: [process.execPath] },
  { name: 'Bun', command: [resolveSlowPackage('@oven/bun-linux-x64/bin/bun')] },
  { name: 'Deno', command: [resolveSlowPackage('@deno/linux-x64-glibc/deno'), 'run', '--allow-all', '--cached-only'] }
]
const RUNTIME_OUTPUT = `verified true
POST /request-auth
POST /auth
GET /profile
200 true
POST /refresh-token
GET /profile
200 true
POST /logout
GET /profile
logged out 401
`

/** Logs in at an example as a wallet would, and opens its protected route. */
async function visit(url: string): Promise<void> {
  const post = async (path: string, body: object): Promise<unknown> => {
    const headers = { 'Content-Type': 'application/json' }
    const response = await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    return response.json()
  }
  const { challenge } = (await post('/request-auth', { did: wallet.did })) as { challenge: string }
  const sig = wallet.personalSign(createLoginText('localhost:3000', challenge))
  const { accessToken } = (await post('/auth', { did: wallet.did, sig })) as { accessToken: string }
  const answer = await fetch(`${url}/profile`, { headers: { Authorization: `DIDAuth ${accessToken}` } })
  expect(await answer.json()).toEqual({ did: wallet.did })
}

describe('the packed library', () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'did-auth-package-')))
  const project = join(folder, 'project')
  let packed: PackedPackage = { tarball: '', files: [] }

  beforeAll(async () => {
    mkdirSync(project)
    const { library, client } = await packAll()
    packed = library
    writeFileSync(join(project, 'package.json'), '{ "private": true }\n')
    const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error']
    try {
      await runIn(project, 'npm', 'install', ...options, library.tarball, client.tarball, ...NEIGHBOURS, ...NEST)
    } catch (cause) {
      throw new Error('npm cannot install packages here: this test needs the registry', { cause })
    }
  })

  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('contains only the build, documents, examples and what the page for operators links to', () => {
    const documents = ['CHANGELOG.md', 'LICENSE', 'README.md', 'SECURITY.md', 'package.json']
    const isBuild = (path: string): boolean => /^dist\/.+\.(?:js|d\.ts)$/.test(path)
    const isLinked = (path: string): boolean =>
      /^(?:examples\/|servers\/(?:docker|monitoring)\/|[\w/]+\/[A-Z\d-]+\.md$)/.test(path)
    expect(packed.files.filter((path) => !isBuild(path) && !isLinked(path)).sort()).toEqual(documents)
    expect(packed.files.filter((path) => /\.test\.|client\/.*\.[jt]s$/.test(path))).toEqual([])
  })

  it('contains every file that package.json names', () => {
    const targets = Object.values(packageJson.exports).flatMap((target) =>
      typeof target === 'string' ? [target] : Object.values(target)
    )
    const named = [...targets, packageJson.main, packageJson.types, ...Object.values(packageJson.bin)].map((path) =>
      path.replace(/^\.\//, '')
    )
    expect(named.filter((path) => !packed.files.includes(path))).toEqual([])
  })

  it('passes publint and are-the-types-wrong', async () => {
    const resolveBin = (name: string): string => join(root, 'test/slow/node_modules/.bin', name)
    await runIn(folder, resolveBin('publint'), 'run', packed.tarball, '--strict')
    // Node 20.19 and newer load ES modules with require(). TypeScript's oldest resolution ignores `exports`.
    const options = ['--profile', 'node16', '--ignore-rules', 'cjs-resolves-to-esm']
    await runIn(folder, resolveBin('attw'), packed.tarball, ...options)
  })

  it('installs at most 28 packages in addition to Express', () => {
    const express = listTree(project, 'express')
    const addedPackages = [...listTree(project, 'express-did-auth')].filter((path) => !express.has(path))
    process.stdout.write(`P8: ${addedPackages.length} packages besides Express, ours included\n`)
    expect(addedPackages).toContain('node_modules/ethers')
    expect(addedPackages.length).toBeLessThanOrEqual(28)
  })

  // npm has Bun and Deno only for Linux. NO_SKIPS=1 requires all three runtimes.
  const runtimes = RUNTIMES.filter(({ command: [program = ''] }) => process.env.NO_SKIPS === '1' || existsSync(program))
  it.each(runtimes)(
    'works with client and verifier on $name',
    async ({ name, command: [program = '', ...options] }) => {
      cpSync(join(root, 'test/slow/packed/runtime.mjs'), join(project, 'runtime.mjs'))
      expect(await runIn(project, program, ...options, 'runtime.mjs')).toBe(`${name}\n${RUNTIME_OUTPUT}`)
    }
  )

  it.each(['express', 'express4'])('works with require() and %s', async (version) => {
    const inside = join(project, `with ${version}`)
    mkdirSync(join(inside, 'node_modules'), { recursive: true })
    const modules = version === 'express' ? 'node_modules' : 'test/slow/node_modules'
    symlinkSync(join(root, modules, version), join(inside, 'node_modules/express'))
    cpSync(join(root, 'examples/require.cjs'), join(inside, 'require.cjs'))
    await useWhileRunning(inside, 'require.cjs', visit)
  })

  it.each([
    ['', '--outfile=bundle.cjs', []],
    [
      ' that is an ES module',
      '--outfile=bundle.mjs',
      [
        '--format=esm',
        // CommonJS packages within the bundle call `require`.
        "--banner:js=import { createRequire } from 'node:module'; const require = createRequire(import.meta.url)"
      ]
    ]
  ])('can be bundled by esbuild%s, with the WebAssembly build of the curve', async (_kind, outfile, more) => {
    const source = `import { didOfPrivateKey, loadCurve } from 'express-did-auth'
Promise.all([loadCurve(), didOfPrivateKey('01'.repeat(32))]).then(([{ kind }, did]) => console.log(kind, did))
`
    writeFileSync(join(project, 'bundled.mjs'), source)
    // Modules of @bitauth/libauth import each other in a cycle, which a bundle of ES modules starts in the wrong order.
    const options = ['--bundle', '--platform=node', '--external:@bitauth/libauth', outfile, ...more]
    await runIn(project, join(root, 'node_modules/.bin/esbuild'), 'bundled.mjs', ...options)
    const file = outfile.split('=')[1]!
    const printed = await runIn(project, process.execPath, '--disable-warning=ExperimentalWarning', file)
    expect(printed).toBe('wasm did:ethr:rsk:0x1a642f0e3c3af545e7acbd38b07251b3990914f1\n')
  })

  const checked = { skipLibCheck: false }
  it.each<[kind: string, endings: string[], options: object, compiler?: string]>([
    [
      'ES modules by TypeScript 5.7',
      ['mts'],
      { module: 'nodenext', ...checked },
      'test/slow/node_modules/typescript5.7'
    ],
    ['commonjs', ['ts'], { module: 'commonjs', moduleResolution: 'bundler', esModuleInterop: true, ...checked }],
    ['both kinds under nodenext', ['mts', 'cts'], { module: 'nodenext', ...checked }],
    [
      'esnext with the resolution of a bundler',
      ['ts'],
      { module: 'esnext', moduleResolution: 'bundler', skipLibCheck: true }
    ]
  ])(
    'has types for strict consumers of modules of %s',
    async (kind, endings, options, compiler = 'node_modules/typescript') => {
      const inside = join(project, `types of ${kind}`)
      const files = endings.map((ending) => `consumer.${ending}`)
      const compilerOptions = { strict: true, target: 'es2023', types: ['node'], noEmit: true, ...options }
      mkdirSync(inside)
      for (const name of files) writeFileSync(join(inside, name), CONSUMER)
      writeFileSync(join(inside, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }))
      await runIn(inside, process.execPath, join(root, compiler, 'bin/tsc'), '-p', '.')
    }
  )

  it('guards a route of a NestJS application that is compiled to CommonJS', async () => {
    const inside = join(project, 'nest')
    mkdirSync(inside)
    writeFileSync(join(inside, 'package.json'), '{ "private": true, "type": "commonjs" }\n')
    writeFileSync(join(inside, 'main.ts'), NEST_APP)
    const decorators = { experimentalDecorators: true, emitDecoratorMetadata: true }
    const compilerOptions = { strict: true, module: 'nodenext', target: 'es2023', types: ['node'], skipLibCheck: true }
    const settings = { compilerOptions: { ...compilerOptions, ...decorators }, files: ['main.ts'] }
    writeFileSync(join(inside, 'tsconfig.json'), JSON.stringify(settings))
    await runIn(inside, process.execPath, join(root, 'node_modules/typescript/bin/tsc'), '-p', '.')
    await useWhileRunning(inside, 'main.js', visit)
  })
})
