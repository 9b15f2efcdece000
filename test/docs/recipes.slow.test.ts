import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { build } from 'esbuild'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { clientHook, readDocument, recipe } from '../support/fixtures/documents.js'
import { packAll, root, runIn, useWhileRunning } from '../support/engines/packed-package.js'
import { scaled } from '../support/fixtures/time-factor.js'

const findBlock = (file: string, language: string, part: string): string => {
  const block = readDocument(file).blocks.find((block) => block.language === language && block.code.includes(part))
  if (block === undefined) throw new Error(`${file} has no ${language} block with ${part}`)
  return block.code
}

/** The reference's test of an app for Vitest, and for runners with global functions. */
const VITEST_TEST = findBlock('src/testing/README.md', 'js', 'vitest')
const GLOBALS_TEST = VITEST_TEST.replace(/^import .* from 'vitest'\n/m, '')

/** The same test as CommonJS, with the app of examples/app.mjs: a project before it installs this package. */
const COMMONJS_TEST = GLOBALS_TEST.replaceAll(/^import (.*) from (.*)$/gm, 'const $1 = require($2)').replace(
  'app.mjs',
  'app.cjs'
)
const COMMONJS_APP = `const express = require('express')
const { didOfPrivateKey, es256kSigner, setupDidAuth } = require('express-did-auth')
exports.makeApp = async () => {
  const app = express()
  const requireDid = setupDidAuth(app, {
    challengeSecret: 'a secret of the tests, longer than 32 bytes',
    serviceUrl: 'http://localhost:3000',
    serviceDid: await didOfPrivateKey('01'.repeat(32)),
    serviceSigner: es256kSigner('01'.repeat(32))
  })
  app.get('/profile', requireDid, (req, res) => res.json(req.user))
  return app
}
`

/** An app of NestJS that uses the recipe of a guard. */
const NESTJS_APP = `import 'reflect-metadata'
import { Controller, Get, Module, Req, UseGuards } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { DidAuthModule, DidGuard } from './did-auth'

@Controller()
class ProfileController {
  @Get('profile')
  @UseGuards(DidGuard)
  profile(@Req() req) {
    return req.user
  }
}

@Module({ imports: [DidAuthModule], controllers: [ProfileController] })
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'] })
await app.listen(3000)
`

describe('the first commands of the documents', () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'did-auth-recipes-')))
  const project = join(folder, 'project')
  const tarballs = new Map<string, string>()

  /** Runs a block of a document unchanged, except that it installs the packages of this checkout. */
  const type = (where: string, code: string): Promise<string> => {
    const names = /\bexpress-did-auth(?:-client)?(?=\s|$)/g
    return runIn(
      where,
      'bash',
      '-euc',
      code.replaceAll(names, (name) => tarballs.get(name) ?? name)
    )
  }
  const install = findBlock('README.md', 'sh', 'npm install')

  beforeAll(async () => {
    mkdirSync(project)
    const { library, client } = await packAll()
    tarballs.set('express-did-auth', library.tarball).set('express-did-auth-client', client.tarball)
    // The commands of the README name the checkout in the folder next to the project.
    const checkout = join(folder, 'express-did-auth')
    mkdirSync(checkout)
    cpSync(library.tarball, join(checkout, basename(library.tarball)))
    await type(project, install)
  }, scaled(240_000))

  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it(
    'run the quick start in an empty folder, and the two curls and the client work',
    async () => {
      writeFileSync(join(project, 'server.js'), findBlock('README.md', 'ts', 'setupDidAuth'))
      writeFileSync(join(project, 'client.js'), findBlock('README.md', 'js', 'DidAuthClient'))
      await type(project, findBlock('README.md', 'sh', 'ethers').split('\n')[0]!)
      await useWhileRunning(project, 'server.js', async (url) => {
        const curls = findBlock('README.md', 'sh', 'curl -i').replaceAll('http://localhost:3000', url)
        const shown = await runIn(project, 'bash', '-euc', curls)
        expect(shown).toMatch(/^HTTP\/1\.1 401 Unauthorized\r\n[^]*Missing access token\{"challenge":"[0-9a-f]{64}"\}$/)
        const printed = await runIn(project, process.execPath, '--import', clientHook(new URL(url).port), 'client.js')
        expect(printed).toMatch(/^200 \{ did: 'did:ethr:rsk:0x[0-9a-fA-F]{40}' \}\n$/)
      })
    },
    scaled(60_000)
  )

  it(
    'run the test of an app on Vitest without configuration',
    async () => {
      cpSync(join(root, 'examples/app.mjs'), join(project, 'app.mjs'))
      writeFileSync(join(project, 'app.test.js'), VITEST_TEST)
      const printed = await type(project, findBlock('src/testing/README.md', 'sh', 'vitest'))
      expect(printed).toMatch(/Tests .*1 passed/)
    },
    scaled(180_000)
  )

  it(
    'run the same test on node:test, and in Jest with ES modules',
    async () => {
      cpSync(join(root, 'examples/app.mjs'), join(project, 'app.mjs'))
      cpSync(join(root, 'examples/login-test.mjs'), join(project, 'login-test.mjs'))
      const printed = await runIn(project, process.execPath, '--test', '--test-reporter=tap', 'login-test.mjs')
      expect(printed).toMatch(/^# pass 1\n# fail 0$/m)
      writeFileSync(join(project, 'globals.test.js'), GLOBALS_TEST)
      const jest = 'npm install --save-dev jest\nNODE_OPTIONS=--experimental-vm-modules npx jest globals.test.js'
      // Jest prints its results to stderr.
      await type(project, jest)
    },
    scaled(180_000)
  )

  describe('NestJS', () => {
    const other = join(folder, 'nestjs')

    beforeAll(async () => {
      mkdirSync(other)
      for (const file of ['nestjs.mjs', 'log-in.mjs']) cpSync(join(root, 'examples', file), join(other, file))
      const line = /npm install .*/.exec(readFileSync(join(other, 'nestjs.mjs'), 'utf8'))![0]
      await type(other, `npm init --yes\n${line} express express-did-auth-client ethers`)
      const options = '{ ...testConfig(), logger: console }'
      const config = `import { testConfig } from 'express-did-auth/testing'\nexport const config = ${options}\n`
      writeFileSync(join(other, 'did-auth-config.ts'), config)
      writeFileSync(join(other, 'did-auth.ts'), recipe('canActivate'))
      writeFileSync(join(other, 'main.ts'), NESTJS_APP)
      await build({
        entryPoints: [join(other, 'main.ts')],
        outfile: join(other, 'main.mjs'),
        bundle: true,
        packages: 'external',
        format: 'esm',
        target: 'node20',
        tsconfigRaw: { compilerOptions: { experimentalDecorators: true } }
      })
    }, scaled(180_000))

    it.each([
      ['the example', 'nestjs.mjs'],
      ['the recipe of a guard', 'main.mjs']
    ])(
      '%s refuses a stranger, and accepts a login of the client',
      async (_what, file) => {
        await useWhileRunning(other, file, async (url) => {
          const answer = await fetch(`${url}/profile`)
          expect([answer.status, await answer.text()]).toEqual([401, 'Missing access token'])
          const printed = await runIn(other, process.execPath, '--import', clientHook(new URL(url).port), 'log-in.mjs')
          expect(printed).toMatch(/^200 \{ did: 'did:ethr:rsk:0x[0-9a-fA-F]{40}' \}\n$/)
        })
      },
      scaled(60_000)
    )
  })

  it(
    'test a CommonJS app in Jest with the transform of the reference',
    async () => {
      const other = join(folder, 'commonjs')
      mkdirSync(other)
      await type(other, install.split('\n')[0]!)
      writeFileSync(join(other, 'app.cjs'), COMMONJS_APP)
      writeFileSync(join(other, 'app.test.js'), COMMONJS_TEST)
      writeFileSync(join(other, 'jest.config.cjs'), findBlock('src/testing/README.md', 'cjs', 'transform'))
      // Jest prints its results to stderr.
      await type(other, findBlock('src/testing/README.md', 'sh', 'npx jest'))
    },
    scaled(180_000)
  )
})
