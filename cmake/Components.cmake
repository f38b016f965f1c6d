# A component is one directory of src/: a static library that links what it may include, and nothing else.
#   tutti_component(NAME SOURCES file… [DEPENDS component…] [LIBRARIES target…])
function(tutti_component name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  set(target tutti_${name})
  list(TRANSFORM arg_DEPENDS PREPEND tutti_)
  if(NOT arg_SOURCES) # headers only
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${target} INTERFACE ${arg_DEPENDS} ${arg_LIBRARIES})
    return()
  endif()
  add_library(${target} STATIC ${arg_SOURCES})
  set_property(GLOBAL APPEND PROPERTY TUTTI_COMPONENTS ${target}) # what the shared library is made of
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  tutti_compile_options(${target})
  target_link_libraries(${target} PUBLIC ${arg_DEPENDS} PRIVATE ${arg_LIBRARIES})
endfunction()

function(tutti_compile_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Wno-sign-conversion)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # False alarms inside the std::string and std::vector of its standard library.
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-stringop-overflow)
  endif()
  if(TUTTI_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(TUTTI_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${TUTTI_SANITIZE} -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer -O1 -g1)
    target_link_options(${target} PUBLIC -fsanitize=${TUTTI_SANITIZE})
  endif()
  if(TUTTI_BUILD_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link -O2)
  endif()
endfunction()

# A test executable, run by ctest as a whole (thousands of cases as processes of their own would cost minutes):
#   tutti_test(NAME SOURCES file… DEPENDS component… [LIBRARIES target…] [LABELS label…] [SHARDS n] [TIMEOUT seconds]
#              [OPTIMIZED])
# Labels: fast (the default; also run under sanitizers), process (starts processes or namespaces), soak. SHARDS splits
# the cases of a long executable over n processes. OPTIMIZED: it computes for long itself; most others keep the compiler
# busy for longer than they run. Results lie in test-results/, where scripts/test counts the cases.
function(tutti_test name)
  cmake_parse_arguments(arg "OPTIMIZED" "SHARDS;TIMEOUT" "SOURCES;DEPENDS;LIBRARIES;LABELS" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS fast)
  endif()
  if(TUTTI_SANITIZE AND NOT "fast" IN_LIST arg_LABELS)
    return()
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600) # seconds: a hang is a hang on a loaded machine too
  endif()
  if(TUTTI_SANITIZE)
    math(EXPR arg_TIMEOUT "3 * ${arg_TIMEOUT}")
  endif()
  add_executable(${name} ${arg_SOURCES})
  tutti_compile_options(${name})
  # What it tests is compiled as it is for users.
  set(optimization -O1)
  if(TUTTI_SANITIZE)
    set(optimization -O0)
  endif()
  if(NOT arg_OPTIMIZED)
    target_compile_options(${name} PRIVATE ${optimization})
  endif()
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  list(TRANSFORM arg_DEPENDS PREPEND tutti_)
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} ${arg_LIBRARIES} GTest::gtest GTest::gtest_main)
  math(EXPR last "${arg_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(test ${name})
    if(arg_SHARDS GREATER 1)
      set(test ${name}.${shard})
    endif()
    add_test(NAME ${test} COMMAND ${name})
    set_tests_properties(
      ${test}
      PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
                 ENVIRONMENT "GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/test-results/${test}.xml;GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()
