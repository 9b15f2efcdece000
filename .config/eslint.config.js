import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { plainLanguage } from './plain-language.js'

// `.config/install.js slow` installs both.
const require = createRequire(new URL('../test/slow/package.json', import.meta.url))
const { defineConfig } = require('eslint/config')
const tseslint = require('typescript-eslint')

const rootDir = fileURLToPath(new URL('..', import.meta.url))

/** Restrictions for which ESLint has no option. Each message gives the reason. */
const everywhere = [
  { selector: 'ExportDefaultDeclaration', message: 'Named exports only: one thing has one name everywhere.' },
  { selector: 'TSExportAssignment', message: 'Named exports only: one thing has one name everywhere.' },
  { selector: 'TSEnumDeclaration', message: 'No enum: use a union of literals, which needs no code at run time.' },
  {
    selector: "BinaryExpression[operator='instanceof'][right.name=/^(?:Buffer|Uint8Array)$/]",
    message: 'Use isBytes: test environments such as jsdom have a Uint8Array of their own.'
  }
]

const randomness = [
  'randomBytes',
  'randomFill',
  'randomFillSync',
  'randomInt',
  'randomUUID',
  'getRandomValues',
  'webcrypto'
]

/** Globals that make a result depend on more than its arguments. Pure code receives them through ports. */
const impureGlobals = [
  ['Date', 'Time arrives as nowSeconds.'],
  ['performance', 'Time arrives as nowSeconds.'],
  ['process', 'Settings arrive as arguments.'],
  ['fetch', 'The network is behind a port.'],
  ['WebSocket', 'The network is behind a port.'],
  ['crypto', 'Randomness is behind the port Random.'],
  ['console', 'Errors are thrown, not printed.'],
  ...[
    'setTimeout',
    'setInterval',
    'setImmediate',
    'clearTimeout',
    'clearInterval',
    'clearImmediate',
    'queueMicrotask'
  ].map((name) => [name, 'Expiry is checked on read; there are no timers here.'])
].map(([name, message]) => ({ name, message }))

const impureImports = [
  ...['node:crypto', 'crypto'].map((name) => ({
    name,
    importNames: [...randomness, 'default'],
    message: 'Randomness is behind the port Random; import a pure function such as createHash by its name.'
  })),
  ...[
    'node:process',
    'process',
    'node:timers',
    'timers',
    'node:timers/promises',
    'node:console',
    'node:perf_hooks'
  ].map((name) => ({ name, message: 'Pure code knows no process, clock or console.' }))
]

const expressPattern = {
  group: ['express', 'express/*', 'express-serve-static-core', 'express4', '!./express', '!../express'],
  message: 'Only src/express knows Express.'
}

const noConcurrentTests = {
  selector: "MemberExpression[property.name='concurrent']",
  message: 'Jest refuses lazy imports after one of the concurrent tests has ended. Use allOf of test/support.'
}

/** One object per folder, because a later setting of a rule replaces an earlier one and does not add to it. */
const restrictedImports = (pattern, paths = []) => [
  'error',
  { paths, patterns: pattern === undefined ? [] : [pattern] }
]

export default defineConfig(
  { ignores: ['**/dist/', '**/node_modules/', '.cache/', '.config/api/'] },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  {
    files: ['**/*.{ts,js,mjs,cjs}'],
    plugins: { 'plain-language': plainLanguage },
    rules: { 'plain-language/plain-opening': 'error' }
  },
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { project: './tsconfig.json', tsconfigRootDir: rootDir } },
    rules: {
      eqeqeq: 'error',
      'no-restricted-syntax': ['error', ...everywhere],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/consistent-type-exports': 'error',
      '@typescript-eslint/explicit-module-boundary-types': 'error',
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      // The limit also applies to comments, which prettier does not wrap.
      'max-len': [
        'error',
        { code: 120, ignoreUrls: true, ignoreStrings: true, ignoreTemplateLiterals: true, ignoreRegExpLiterals: true }
      ],
      // `declare global { namespace Express }` is the only way to declare req.user.
      '@typescript-eslint/no-namespace': ['error', { allowDeclarations: true }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      // The methods of a port are async for all adapters, also for those that do not wait.
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/switch-exhaustiveness-check': 'error'
    }
  },

  {
    // The page runs in a browser, so it has its own TypeScript configuration with DOM types.
    files: ['servers/page/**/*.ts'],
    languageOptions: { parserOptions: { project: './.config/tsconfig.page.json', tsconfigRootDir: rootDir } }
  },

  {
    // The same text is TypeScript and JavaScript, so it has no types of its own.
    files: ['examples/starter/*.ts'],
    rules: {
      '@typescript-eslint/explicit-module-boundary-types': 'off',
      '@typescript-eslint/no-floating-promises': 'off'
    }
  },

  { files: ['src/**/*.ts'], rules: { '@typescript-eslint/no-restricted-imports': restrictedImports(expressPattern) } },
  {
    files: ['src/stores/sql/*-verbs.ts', 'servers/content/sql/*-{steps,verbs}.ts'],
    // The types of these functions are inferred, because callers derive them from the functions by name.
    rules: { '@typescript-eslint/explicit-module-boundary-types': 'off' }
  },
  {
    files: ['src/setup-did-auth.ts', 'src/index.ts'],
    rules: {
      '@typescript-eslint/no-restricted-imports': restrictedImports({ ...expressPattern, allowTypeImports: true })
    }
  },
  {
    files: ['src/adapters/secp256k1-bindings.d.ts'],
    // A CommonJS module always has a default export.
    rules: { 'no-restricted-syntax': 'off' }
  },
  { files: ['src/express/**/*.ts'], rules: { '@typescript-eslint/no-restricted-imports': 'off' } },
  {
    files: ['src/protocol/**/*.ts', 'src/flows/**/*.ts'],
    rules: {
      'no-restricted-globals': ['error', { globals: impureGlobals, checkGlobalObject: true }],
      'no-restricted-properties': [
        'error',
        { object: 'Math', property: 'random', message: 'Randomness is behind the port Random.' }
      ],
      '@typescript-eslint/no-restricted-imports': restrictedImports(expressPattern, impureImports)
    }
  },

  {
    files: ['test/**/*.ts'],
    rules: {
      // Tests pass wrong values on purpose, read JSON bodies of type `any`, and may assume that a value exists.
      '@typescript-eslint/explicit-module-boundary-types': 'off',
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      'no-restricted-syntax': ['error', ...everywhere, noConcurrentTests],
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      '@typescript-eslint/no-unnecessary-condition': 'off',
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/unbound-method': 'off'
    }
  }
)
